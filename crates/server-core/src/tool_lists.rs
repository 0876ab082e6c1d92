//! Serialized tool lists. Each tool is rendered on first use, once per catalog and format; each
//! list is joined once per view. Rendered tools and complete lists are cached with limits in bytes.

mod rendered_list;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use catalog::{Catalog, CatalogEntry};
use formats::{AliasMap, ProviderFormat, ToolSearcher};
use gateway::CatalogView;
use tool::Json;

use crate::gzip_response::{self, PrecompressedBody};
pub use rendered_list::RenderedTools;

/// Maximum size of cached lists in bytes; beyond it the cache is cleared.
const MAX_CACHED_BYTES: usize = 64 << 20;
/// Number of tools that render in about a millisecond; more are rendered on a blocking thread.
const BLOCKING_THRESHOLD: usize = 500;
/// Maximum number of views with separate name tables; beyond it they are cleared.
const MAX_VIEW_RENDERINGS: usize = 64;
/// Maximum size of the rendered tools of one format, and of one separate view, in bytes; beyond it
/// they are cleared. There are eight combinations of format and name style: 128 MiB and 64 MiB in
/// all.
const RENDERED_LIMITS: (usize, usize) = (16 << 20, 1 << 20);
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

/// A value with the number of the catalog that it was built from.
type WithCatalogNumber<T> = (u64, Arc<T>);

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
        2 * self.array.len() + self.suffix.len()
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

    /// The next items after the cursor, at most [`MAX_PAGE_TOOLS`]; `None` for an unknown cursor.
    /// Only the items of the page are rendered.
    pub fn from_page<N: AsRef<str>, T>(
        items: impl Iterator<Item = (N, T)>,
        cursor: Option<&str>,
        render: impl Fn(T) -> Json,
    ) -> Option<Self> {
        let mut items = items.peekable();
        if let Some(cursor) = cursor
            && !items.by_ref().any(|(name, _)| name.as_ref() == cursor)
        {
            return None;
        }
        let page: Vec<_> = items.by_ref().take(MAX_PAGE_TOOLS).collect();
        let more = items.peek().is_some();
        let next = page.last().filter(|_| more).map(|(name, _)| name.as_ref().to_owned());
        let rendered: Vec<_> = page.into_iter().map(|(_, item)| render(item)).collect();
        let list = Json::array_of(&rendered).bytes().clone();
        Some(Self::new(list, next, Bytes::new(), None))
    }
}

/// Cache of serialized tool lists.
#[derive(Debug, Default)]
pub struct ToolListCache {
    names: Mutex<HashMap<NameStyle, WithCatalogNumber<AliasMap>>>,
    rendered: Mutex<HashMap<(ProviderFormat, NameStyle), WithCatalogNumber<RenderedTools>>>,
    /// Separate renderings for views with their own names, by view id.
    view_renderings: Mutex<ViewRenderings>,
    cached_lists: Mutex<CachedLists>,
}

#[derive(Debug, Default)]
struct ViewRenderings {
    names: HashMap<u64, Arc<AliasMap>>,
    rendered: HashMap<(u64, ProviderFormat), Arc<RenderedTools>>,
}

#[derive(Debug, Default)]
struct CachedLists {
    bytes: usize,
    lists: HashMap<ListKey, CachedList>,
}

impl ToolListCache {
    /// The rendered tools of the view in this format, and maybe others; names do not disclose
    /// hidden tools.
    pub fn render_view(
        &self,
        view: &CatalogView,
        format: ProviderFormat,
        names: NameStyle,
    ) -> Arc<RenderedTools> {
        let Some(own) = self.view_names(view, names) else {
            return self.render_catalog(view.full_catalog(), format, names);
        };
        let lock = || self.view_renderings.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (view.id, format);
        if let Some(found) = lock().rendered.get(&key) {
            return Arc::clone(found);
        }
        let apart = Arc::new(RenderedTools::new(
            view.full_catalog(),
            (format, own),
            RENDERED_LIMITS.1,
            None,
        ));
        let mut kept = lock();
        if kept.rendered.len() >= MAX_VIEW_RENDERINGS {
            kept.rendered.clear();
        }
        kept.rendered.insert(key, Arc::clone(&apart));
        apart
    }

    /// The name table of the view, if it differs from the catalog's.
    fn view_names(&self, view: &CatalogView, names: NameStyle) -> Option<Arc<AliasMap>> {
        let has = |name: &str| view.find_tool(name).is_some();
        if names == NameStyle::Native
            || !self.catalog_names(view.full_catalog(), names).depends_on_hidden(has)
        {
            return None;
        }
        let lock = || self.view_renderings.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = lock().names.get(&view.id) {
            return Some(Arc::clone(found));
        }
        let tools: Vec<_> = view.list_tools().map(|entry| entry.name.as_str()).collect();
        let own = run_blocking_if_many_tools(tools.len(), || {
            Arc::new(AliasMap::with_safe_aliases(&tools))
        });
        let mut kept = lock();
        if kept.names.len() >= MAX_VIEW_RENDERINGS {
            kept.names.clear();
        }
        kept.names.insert(view.id, Arc::clone(&own));
        Some(own)
    }

    /// The name table of the catalog. Only the newest catalog is cached.
    fn catalog_names(&self, catalog: &Arc<Catalog>, names: NameStyle) -> Arc<AliasMap> {
        let lock = || self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = lock().get(&names).filter(|(of, _)| *of == catalog.version) {
            return Arc::clone(found);
        }
        let all = catalog.list_tools().map(|entry| entry.name.as_str());
        let made = run_blocking_if_many_tools(catalog.len(), || {
            Arc::new(match names {
                NameStyle::Safe => AliasMap::with_safe_aliases(all),
                NameStyle::Native => AliasMap::with_native_names(all),
            })
        });
        let gone = lock().insert(names, (catalog.version, Arc::clone(&made)));
        gateway::drop_in_background(catalog.len() > BLOCKING_THRESHOLD, gone);
        made
    }

    /// The rendered tools of the catalog in this format. Only the newest catalog is cached.
    fn render_catalog(
        &self,
        catalog: &Arc<Catalog>,
        format: ProviderFormat,
        names: NameStyle,
    ) -> Arc<RenderedTools> {
        let key = (format, names);
        let before = {
            let cached = self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
            match cached.get(&key) {
                Some((of, found)) if *of == catalog.version => return Arc::clone(found),
                other => other.map(|(_, before)| Arc::clone(before)),
            }
        };
        let aliases = self.catalog_names(catalog, names);
        let tools = before.as_ref().map_or(0, |before| before.len());
        // Built outside the lock: after a change two callers may do it at once, with the same
        // result.
        let rendered = run_blocking_if_many_tools(tools, || {
            let of = (format, aliases);
            Arc::new(RenderedTools::new(catalog, of, RENDERED_LIMITS.0, before.as_deref()))
        });
        let mut cached = self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = cached.insert(key, (catalog.version, Arc::clone(&rendered)));
        drop(cached);
        gateway::drop_in_background(tools > BLOCKING_THRESHOLD, (gone, before));
        rendered
    }

    /// Returns the cached list, or builds and caches it.
    pub fn get_or_build(
        &self,
        key: ListKey,
        join: impl FnOnce() -> Option<CachedList>,
    ) -> Option<CachedList> {
        if let Some(found) =
            self.cached_lists.lock().unwrap_or_else(PoisonError::into_inner).lists.get(&key)
        {
            return Some(found.clone());
        }
        // This may render a thousand tools.
        let kept = run_blocking_if_many_tools(MAX_PAGE_TOOLS, join)?;
        let mut whole = self.cached_lists.lock().unwrap_or_else(PoisonError::into_inner);
        if whole.bytes + kept.cached_size() > MAX_CACHED_BYTES {
            gateway::drop_in_background(true, std::mem::take(&mut *whole));
        }
        whole.bytes += kept.cached_size();
        // Two callers may have built the same list at once; it is cached and counted once.
        let before = whole.lists.insert(key, kept.clone());
        whole.bytes -= before.map_or(0, |before| before.cached_size());
        Some(kept)
    }

    /// Resolves the name that a model used to the native tool name: aliases are resolved before any
    /// decision. Aliases of tools outside the view are not resolved, so that their names are not
    /// disclosed.
    pub fn resolve_tool_name(&self, view: &CatalogView, name: &str) -> String {
        if view.find_tool(name).is_some() {
            return name.to_owned();
        }
        // Only the name table is used: a mistyped name renders nothing.
        let own = self.view_names(view, NameStyle::Safe);
        let names = own.unwrap_or_else(|| self.catalog_names(view.full_catalog(), NameStyle::Safe));
        let found = names.name_of(name).filter(|found| view.find_tool(found).is_some());
        found.unwrap_or(name).to_owned()
    }
}

#[cfg(test)]
mod tests;
