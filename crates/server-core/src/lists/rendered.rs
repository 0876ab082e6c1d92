//! Tools rendered in one format: each on first use, with a limit for the cached bytes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use catalog::{Catalog, Entry};
use formats::{AliasMap, Format};
use tool::Json;

/// Overhead of a rendered tool beside its text, in bytes.
const AROUND: usize = 256;

/// The rendered tools of one catalog in one format and name style.
#[derive(Debug)]
pub struct Rendered {
    /// The name table.
    pub names: Arc<AliasMap>,
    /// Weak, so that cached tools do not keep an old catalog alive; the caller holds a view of it.
    catalog: Weak<Catalog>,
    format: Format,
    /// Maximum size of the rendered tools in bytes.
    most: usize,
    written: Mutex<Written>,
}

#[derive(Debug, Default)]
struct Written {
    bytes: usize,
    tools: HashMap<Box<str>, One>,
    /// How many tools were rendered.
    #[cfg(test)]
    count: usize,
}

/// A tool with its rendering.
#[derive(Debug, Clone)]
struct One {
    entry: Arc<Entry>,
    rendered: Arc<formats::Rendered>,
}

impl One {
    fn bytes(&self) -> usize {
        self.rendered.json.as_ref().map_or(0, |json| json.bytes().len()) + AROUND
    }
}

impl Rendered {
    /// Creates the cache with a limit in bytes. Renderings of the previous catalog are reused for
    /// unchanged tools with the same name.
    pub(super) fn new(
        catalog: &Arc<Catalog>,
        (format, names): (Format, Arc<AliasMap>),
        most: usize,
        before: Option<&Self>,
    ) -> Self {
        let mut written = Written::default();
        if let Some(before) = before {
            let old = before.written();
            let same = |name: &str, one: &One| {
                let there = own(catalog, name).is_some_and(|entry| Arc::ptr_eq(entry, &one.entry));
                there && before.names.alias(name) == names.alias(name)
            };
            let kept = old.tools.iter().filter(|(name, one)| same(name, one));
            written.tools = kept.map(|(name, one)| (name.clone(), one.clone())).collect();
            written.bytes = written.tools.values().map(One::bytes).sum();
        }
        let (catalog, written) = (Arc::downgrade(catalog), Mutex::new(written));
        Self { names, catalog, format, most, written }
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Renders one tool, with the losses of the format.
    pub fn tool(&self, name: &str) -> Option<Arc<formats::Rendered>> {
        if let Some(one) = self.written().tools.get(name) {
            return Some(Arc::clone(&one.rendered));
        }
        let catalog = self.catalog.upgrade()?;
        let entry = own(&catalog, name)?;
        let alias = self.names.alias(name).unwrap_or(name);
        // Outside the lock: two callers may render one tool at once, with the same result.
        let rendered = Arc::new(formats::render(self.format, &entry.tool, alias));
        let one = One { entry: Arc::clone(entry), rendered: Arc::clone(&rendered) };
        let mut written = self.written();
        if written.bytes + one.bytes() > self.most {
            // Cleared, as lists are.
            let gone = std::mem::take(&mut written.tools);
            written.bytes = 0;
            gateway::away(true, gone);
        }
        #[cfg(test)]
        {
            written.count += 1;
        }
        written.bytes += one.bytes();
        let before = written.tools.insert(name.into(), one);
        written.bytes -= before.map_or(0, |before| before.bytes());
        Some(rendered)
    }

    /// The JSON of one tool; `None` if it does not exist or the format cannot represent it.
    pub fn fragment(&self, name: &str) -> Option<Json> {
        self.tool(name)?.json.clone()
    }

    /// How many tools are cached.
    pub(super) fn len(&self) -> usize {
        self.written().tools.len()
    }

    /// How many tools were rendered, and the cached bytes.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        let written = self.written();
        (written.count, written.bytes)
    }
}

/// Finds the tool with this listed name.
fn own<'a>(catalog: &'a Catalog, name: &str) -> Option<&'a Arc<Entry>> {
    let (_, entry) = catalog.find(name)?;
    (entry.name.as_str() == name).then_some(entry)
}
