//! Serialized tool lists. Each tool is rendered on first use, once per format and name; each list is
//! joined once per view. Rendered tools, lists and name tables are cached with limits in bytes.

mod name_tables;
mod rendered_list;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use catalog::CatalogEntry;
use formats::{ProviderFormat, ToolSearcher};
use gateway::CatalogView;
use tool::Json;

use crate::generation_cache::GenerationCache;
use crate::gzip_response::{self, PrecompressedBody};
use name_tables::NameTables;
use rendered_list::FragmentCache;
pub use rendered_list::RenderedTools;

/// Maximum size of cached lists in bytes.
const MAX_CACHED_BYTES: usize = 32 << 20;
/// Overhead of a cached list beside its bytes.
const LIST_OVERHEAD_BYTES: usize = 512;
/// Number of tools that render in about a millisecond; more are rendered on a blocking thread.
const BLOCKING_THRESHOLD: usize = 500;
/// Maximum number of tools per page, for all interfaces.
pub const MAX_PAGE_TOOLS: usize = 1_000;

/// One page of a view.
#[derive(Debug)]
pub struct ToolPage<'a> {
    /// The tools of the page.
    pub tools: Vec<&'a Arc<CatalogEntry>>,
    /// The cursor of the next page; `None` at the end.
    pub next: Option<String>,
}

/// The next matching tools of a view, at most `limit`. A cursor is the name of the last tool of the
/// previous page: it is valid across catalogs while that tool exists. `None` if it does not exist.
pub fn page_after<'a>(
    view: &'a CatalogView,
    limit: usize,
    cursor: Option<&str>,
    matches: impl Fn(&CatalogEntry) -> bool,
) -> Option<ToolPage<'a>> {
    let mut tools = tools_after(view, cursor)?.filter(|entry| matches(entry));
    let page: Vec<_> = tools.by_ref().take(limit).collect();
    let more = tools.next().is_some();
    let next = page.last().filter(|_| more).map(|entry| entry.name.to_string());
    Some(ToolPage { tools: page, next })
}

/// The tools of a view after a cursor, which is a tool name; all without a cursor.
pub fn tools_after<'a>(
    view: &'a CatalogView,
    cursor: Option<&str>,
) -> Option<impl Iterator<Item = &'a Arc<CatalogEntry>> + use<'a>> {
    let (all, after) = match cursor {
        None => (Some(view.list_tools()), None),
        Some(name) => (None, Some(view.tools_after(name)?)),
    };
    Some(all.into_iter().flatten().chain(after.into_iter().flatten()))
}

/// The style of tool names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NameStyle {
    /// Names that all providers accept.
    Safe,
    /// Names as given by the source.
    Native,
}

/// Runs work on a blocking thread if it is long for this number of tools.
pub fn run_blocking_if_many_tools<T>(tools: usize, work: impl FnOnce() -> T) -> T {
    gateway::block_in_place_if(tools > BLOCKING_THRESHOLD, work)
}

/// The cache key of a list: view, kind and cursor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ListKey {
    /// The id of the view.
    pub view: u64,
    /// The kind of the list.
    pub list_kind: ListKind,
    /// The cursor of the page; `None` for the first page.
    pub from: Option<String>,
}

/// The content of a list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ListKind {
    /// All tools, without pagination.
    AllTools(ProviderFormat, NameStyle),
    /// All tools, without pagination, of which most are deferred.
    DeferredTools(ProviderFormat, ToolSearcher),
    /// A page of all tools, in the MCP format.
    ToolPage(NameStyle),
    /// A page of the search tools and the tools that the search mode does not defer, in the MCP format.
    SearchPage(NameStyle),
    /// A page of the search tools and the tools that no list may defer, in the MCP format.
    MixedPage(NameStyle),
    /// A page of all tools without their schemas, in the MCP format.
    DeferredPage(NameStyle),
    /// A page of one source: its `tools`, `prompts`, `resources` or `resourceTemplates`.
    SourcePage(&'static str, String),
    /// A page of all sources: their `prompts`, `resources` or `resourceTemplates`.
    CompanionPage(&'static str),
}

/// A serialized list with its cursor.
#[derive(Debug, Clone)]
pub struct CachedList {
    /// The JSON array.
    pub array: Bytes,
    /// The cursor of the next page.
    pub next: Option<String>,
    /// The bytes after the array in the REST response.
    pub suffix: Bytes,
    /// The entity tag of that response.
    pub etag: Option<Arc<str>>,
    /// The compressed array and suffix, created for the first client that accepts gzip.
    gzip: Arc<OnceLock<Option<PrecompressedBody>>>,
}

impl CachedList {
    /// Creates a cached list with its pagination state.
    pub fn new(list: Bytes, next: Option<String>, tail: Bytes, tag: Option<Arc<str>>) -> Self {
        Self { array: list, next, suffix: tail, etag: tag, gzip: Arc::default() }
    }

    /// Size in bytes, with the compressed form.
    fn cached_size(&self) -> usize {
        2 * self.array.len() + self.suffix.len() + LIST_OVERHEAD_BYTES
    }

    /// The compressed array and suffix; `None` if compression is not worthwhile.
    pub fn gzip_body(&self) -> Option<&PrecompressedBody> {
        if self.array.len() < gzip_response::MIN_COMPRESS_BYTES {
            return None;
        }
        let pack = || PrecompressedBody::compress(&[self.array.clone(), self.suffix.clone()]);
        let bytes_of_a_tool = 256;
        let made = self
            .gzip
            .get_or_init(|| run_blocking_if_many_tools(self.array.len() / bytes_of_a_tool, pack));
        made.as_ref()
    }

    /// A page of at most [`MAX_PAGE_TOOLS`] items, which begin after its cursor. Only the items of the
    /// page are rendered, and one more is visited. A cursor is the name of the last item.
    pub fn from_page<N: AsRef<str>, T>(
        items: impl Iterator<Item = (N, T)>,
        render: impl Fn(T) -> Json,
    ) -> Self {
        let mut items = items.peekable();
        let page: Vec<_> = items.by_ref().take(MAX_PAGE_TOOLS).collect();
        let more = items.peek().is_some();
        let next = page.last().filter(|_| more).map(|(name, _)| name.as_ref().to_owned());
        let rendered: Vec<_> = page.into_iter().map(|(_, item)| render(item)).collect();
        let list = Json::array_of(&rendered).bytes().clone();
        Self::new(list, next, Bytes::new(), None)
    }
}

/// Cache of serialized tool lists.
#[derive(Debug)]
pub struct ToolListCache {
    name_tables: NameTables,
    fragments: Arc<FragmentCache>,
    cached_lists: Mutex<GenerationCache<ListKey, CachedList>>,
}

impl Default for ToolListCache {
    fn default() -> Self {
        Self {
            name_tables: NameTables::default(),
            fragments: Arc::default(),
            cached_lists: Mutex::new(GenerationCache::with_limit(MAX_CACHED_BYTES)),
        }
    }
}

impl ToolListCache {
    /// The rendered tools of the view in this format, and maybe others; names do not disclose
    /// hidden tools.
    pub fn render_view(
        &self,
        view: &CatalogView,
        format: ProviderFormat,
        style: NameStyle,
    ) -> RenderedTools {
        let names = self.name_tables.names_of(view, style);
        RenderedTools::new((names, style), format, Arc::clone(&self.fragments))
    }

    /// Returns the cached list, or builds and caches it. A list above half of the limit of all is
    /// built each time.
    pub fn get_or_build(
        &self,
        key: ListKey,
        join: impl FnOnce() -> Option<CachedList>,
    ) -> Option<CachedList> {
        let lock = || self.cached_lists.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = lock().get(&key) {
            return Some(found);
        }
        // This may render a thousand tools.
        let list = run_blocking_if_many_tools(MAX_PAGE_TOOLS, join)?;
        // A list is few allocations, however long it is: it is dropped at once, outside the lock.
        let forgotten = lock().insert(key, list.clone(), list.cached_size());
        drop(forgotten);
        Some(list)
    }

    /// Resolves the name that a model used to the native tool name: aliases are resolved before any
    /// decision. Aliases of tools outside the view are not resolved, so that their names are not
    /// disclosed.
    pub fn resolve_tool_name(&self, view: &CatalogView, name: &str) -> String {
        if view.find_tool(name).is_some() {
            return name.to_owned();
        }
        // Only the name table is used: a mistyped name renders nothing.
        let names = self.name_tables.names_of(view, NameStyle::Safe);
        let found = names.name_of(name).filter(|found| view.find_tool(found).is_some());
        found.unwrap_or(name).to_owned()
    }
}

#[cfg(test)]
mod tests;
