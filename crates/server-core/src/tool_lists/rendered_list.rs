//! Tools rendered in one format: each on first use, and remembered within a limit in bytes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use catalog::CatalogEntry;
use formats::{AliasMap, ProviderFormat};
use tool::{Json, Tool};

use super::NameStyle;
use crate::generation_cache::GenerationCache;

/// Maximum size of all rendered tools in bytes.
const MAX_RENDERED_BYTES: usize = 24 << 20;
/// Overhead of a rendered tool beside its text and alias, in bytes.
const ENTRY_OVERHEAD_BYTES: usize = 512;
/// Size of one loss of a rendering, in bytes.
const LOSS_BYTES: usize = 160;

/// Cache key of a rendering: format, style of names and address of the definition.
type FragmentKey = (ProviderFormat, NameStyle, usize);

/// A rendered tool with its definition.
#[derive(Debug)]
struct RenderedFragment {
    /// Its address is not used again while this exists, and its text is not kept alive.
    tool: Weak<Tool>,
    /// Alias under which it was rendered. Hidden tools may give views different ones.
    alias: Box<str>,
    rendered: Arc<formats::RenderedTool>,
}

/// Rendered tools of all formats, whatever catalogs they are in: a tool that does not change is
/// rendered once.
#[derive(Debug)]
pub(super) struct FragmentCache {
    fragments: Mutex<GenerationCache<FragmentKey, Arc<RenderedFragment>>>,
    /// How many tools were rendered.
    #[cfg(test)]
    count: std::sync::atomic::AtomicUsize,
}

impl Default for FragmentCache {
    fn default() -> Self {
        Self::with_limit(MAX_RENDERED_BYTES)
    }
}

impl FragmentCache {
    pub(super) fn with_limit(max_bytes: usize) -> Self {
        Self {
            fragments: Mutex::new(GenerationCache::with_limit(max_bytes)),
            #[cfg(test)]
            count: std::sync::atomic::AtomicUsize::new(0),
        }
    }

    fn lock_fragments(
        &self,
    ) -> MutexGuard<'_, GenerationCache<FragmentKey, Arc<RenderedFragment>>> {
        self.fragments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get_or_render(
        &self,
        (format, style): (ProviderFormat, NameStyle),
        tool: &Arc<Tool>,
        alias: &str,
    ) -> Arc<formats::RenderedTool> {
        let key = (format, style, Arc::as_ptr(tool).addr());
        let found = self.lock_fragments().get(&key).filter(|found| *found.alias == *alias);
        if let Some(found) = found {
            return Arc::clone(&found.rendered);
        }
        // Outside the lock: two callers may render one tool at once, with the same result.
        let rendered = Arc::new(formats::render_tool(format, tool, alias));
        #[cfg(test)]
        self.count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let text = rendered.json.as_ref().map_or(0, |json| json.bytes().len());
        let fragment = Arc::new(RenderedFragment {
            tool: Arc::downgrade(tool),
            alias: alias.into(),
            rendered: Arc::clone(&rendered),
        });
        debug_assert_eq!(fragment.tool.as_ptr().addr(), key.2, "the address is its identity");
        let losses = rendered.losses.len() * LOSS_BYTES;
        let bytes = text + losses + alias.len() + ENTRY_OVERHEAD_BYTES;
        let forgotten = self.lock_fragments().insert(key, fragment, bytes);
        if !forgotten.is_empty() {
            gateway::drop_in_background(true, forgotten);
        }
        rendered
    }

    /// Returns how many tools were rendered, and the cached bytes.
    #[cfg(test)]
    pub(super) fn cache_counts(&self) -> (usize, usize) {
        let count = self.count.load(std::sync::atomic::Ordering::Relaxed);
        (count, self.lock_fragments().counts().1)
    }
}

/// The rendered tools of one view in one format and name style.
#[derive(Debug)]
pub struct RenderedTools {
    /// The name table.
    pub names: Arc<AliasMap>,
    style: NameStyle,
    format: ProviderFormat,
    fragments: Arc<FragmentCache>,
}

impl RenderedTools {
    pub(super) fn new(
        (names, style): (Arc<AliasMap>, NameStyle),
        format: ProviderFormat,
        fragments: Arc<FragmentCache>,
    ) -> Self {
        Self { names, style, format, fragments }
    }

    /// Renders one tool of the view, with the losses of the format.
    pub fn render_tool(&self, entry: &CatalogEntry) -> Arc<formats::RenderedTool> {
        let name = entry.name.as_str();
        let alias = self.names.alias_of(name).unwrap_or(name);
        self.fragments.get_or_render((self.format, self.style), &entry.tool, alias)
    }

    /// The JSON of one tool of the view; `None` if the format cannot represent it.
    pub fn tool_json(&self, entry: &CatalogEntry) -> Option<Json> {
        self.render_tool(entry).json.clone()
    }

    /// Returns how many tools were rendered, and the cached bytes.
    #[cfg(test)]
    pub(super) fn cache_counts(&self) -> (usize, usize) {
        self.fragments.cache_counts()
    }
}
