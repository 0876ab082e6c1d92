//! Tools rendered in one format: each on first use, with a limit for the cached bytes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use catalog::{Catalog, CatalogEntry};
use formats::{AliasMap, ProviderFormat};
use tool::Json;

/// Overhead of a rendered tool beside its text, in bytes.
const ENTRY_OVERHEAD_BYTES: usize = 256;

/// The rendered tools of one catalog in one format and name style.
#[derive(Debug)]
pub struct RenderedTools {
    /// The name table.
    pub names: Arc<AliasMap>,
    /// Weak, so that cached tools do not keep an old catalog alive; the caller holds a view of it.
    catalog: Weak<Catalog>,
    format: ProviderFormat,
    /// Maximum size of the rendered tools in bytes.
    max_bytes: usize,
    entries: Mutex<RenderedEntries>,
}

#[derive(Debug, Default)]
struct RenderedEntries {
    bytes: usize,
    tools: HashMap<Box<str>, RenderedEntry>,
    /// How many tools were rendered.
    #[cfg(test)]
    count: usize,
}

/// A tool with its rendering.
#[derive(Debug, Clone)]
struct RenderedEntry {
    entry: Arc<CatalogEntry>,
    rendered: Arc<formats::RenderedTool>,
}

impl RenderedEntry {
    fn cached_size(&self) -> usize {
        self.rendered.json.as_ref().map_or(0, |json| json.bytes().len()) + ENTRY_OVERHEAD_BYTES
    }
}

impl RenderedTools {
    /// Creates the cache with a limit in bytes. Renderings of the previous catalog are reused for
    /// unchanged tools with the same name.
    pub(super) fn new(
        catalog: &Arc<Catalog>,
        (format, names): (ProviderFormat, Arc<AliasMap>),
        max_bytes: usize,
        previous: Option<&Self>,
    ) -> Self {
        let mut written = RenderedEntries::default();
        if let Some(previous) = previous {
            let old = previous.lock_entries();
            let same = |name: &str, one: &RenderedEntry| {
                let there =
                    find_by_name(catalog, name).is_some_and(|entry| Arc::ptr_eq(entry, &one.entry));
                there && previous.names.alias_of(name) == names.alias_of(name)
            };
            let kept = old.tools.iter().filter(|(name, one)| same(name, one));
            written.tools = kept.map(|(name, one)| (name.clone(), one.clone())).collect();
            written.bytes = written.tools.values().map(RenderedEntry::cached_size).sum();
        }
        let (catalog, written) = (Arc::downgrade(catalog), Mutex::new(written));
        Self { names, catalog, format, max_bytes, entries: written }
    }

    fn lock_entries(&self) -> MutexGuard<'_, RenderedEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Renders one tool, with the losses of the format.
    pub fn render_tool(&self, name: &str) -> Option<Arc<formats::RenderedTool>> {
        if let Some(one) = self.lock_entries().tools.get(name) {
            return Some(Arc::clone(&one.rendered));
        }
        let catalog = self.catalog.upgrade()?;
        let entry = find_by_name(&catalog, name)?;
        let alias = self.names.alias_of(name).unwrap_or(name);
        // Outside the lock: two callers may render one tool at once, with the same result.
        let rendered = Arc::new(formats::render_tool(self.format, &entry.tool, alias));
        let one = RenderedEntry { entry: Arc::clone(entry), rendered: Arc::clone(&rendered) };
        let mut written = self.lock_entries();
        if written.bytes + one.cached_size() > self.max_bytes {
            // Cleared, as lists are.
            let gone = std::mem::take(&mut written.tools);
            written.bytes = 0;
            gateway::drop_in_background(true, gone);
        }
        #[cfg(test)]
        {
            written.count += 1;
        }
        written.bytes += one.cached_size();
        let before = written.tools.insert(name.into(), one);
        written.bytes -= before.map_or(0, |before| before.cached_size());
        Some(rendered)
    }

    /// The JSON of one tool; `None` if it does not exist or the format cannot represent it.
    pub fn tool_json(&self, name: &str) -> Option<Json> {
        self.render_tool(name)?.json.clone()
    }

    /// Returns the number of cached tools.
    pub(super) fn len(&self) -> usize {
        self.lock_entries().tools.len()
    }

    /// Returns the number of rendered tools and the cached bytes.
    #[cfg(test)]
    pub(super) fn cache_counts(&self) -> (usize, usize) {
        let written = self.lock_entries();
        (written.count, written.bytes)
    }
}

/// Finds the tool with this listed name.
fn find_by_name<'a>(catalog: &'a Catalog, name: &str) -> Option<&'a Arc<CatalogEntry>> {
    let (_, entry) = catalog.find_tool(name)?;
    (entry.name.as_str() == name).then_some(entry)
}
