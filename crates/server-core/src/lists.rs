//! Serialized tool lists. Each tool is rendered on first use, once per catalog and format; each
//! list is joined once per view. Rendered tools and complete lists are cached with limits in bytes.

mod rendered;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use catalog::{Catalog, Entry};
use formats::{AliasMap, Format};
use gateway::View;
use tool::Json;

use crate::packed::{self, Packed};
pub use rendered::Rendered;

/// Maximum size of cached lists in bytes; beyond it the cache is cleared.
const CAP: usize = 64 << 20;
/// Number of tools that render in about a millisecond; more are rendered on a blocking thread.
const MANY: usize = 500;
/// Maximum number of views with separate name tables; beyond it they are cleared.
const APART: usize = 64;
/// Maximum size of the rendered tools of one format, and of one separate view, in bytes; beyond it
/// they are cleared. There are eight combinations of format and name style: 128 MiB and 64 MiB in
/// all.
const RENDERED: (usize, usize) = (16 << 20, 1 << 20);
/// Maximum number of tools per page, for all interfaces.
pub const PAGE: usize = 1_000;

/// One page of a view.
#[derive(Debug)]
pub struct Page<'a> {
    /// The tools of the page.
    pub tools: Vec<&'a Arc<Entry>>,
    /// The cursor of the next page; `None` at the end.
    pub next: Option<String>,
}

/// The next matching tools of a view, at most `limit`. A cursor is the name of the last tool of the
/// previous page: it is valid across catalogs while that tool exists. `None` if it does not exist.
pub fn page<'a>(
    view: &'a View,
    limit: usize,
    cursor: Option<&str>,
    fits: impl Fn(&Entry) -> bool,
) -> Option<Page<'a>> {
    let mut tools = behind(view, cursor)?.filter(|entry| fits(entry));
    let page: Vec<_> = tools.by_ref().take(limit).collect();
    let more = tools.next().is_some();
    let next = page.last().filter(|_| more).map(|entry| entry.name.to_string());
    Some(Page { tools: page, next })
}

/// The tools of a view after a cursor, which is a tool name; all without a cursor.
pub fn behind<'a>(
    view: &'a View,
    cursor: Option<&str>,
) -> Option<impl Iterator<Item = &'a Arc<Entry>> + use<'a>> {
    let (all, after) = match cursor {
        None => (Some(view.tools()), None),
        Some(name) => (None, Some(view.tools_after(name)?)),
    };
    Some(all.into_iter().flatten().chain(after.into_iter().flatten()))
}

/// The style of tool names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Names {
    /// Names that all providers accept.
    Safe,
    /// Names as given by the source.
    Native,
}

/// Runs work on a blocking thread if it is long for this number of tools.
pub fn aside<T>(tools: usize, work: impl FnOnce() -> T) -> T {
    gateway::aside_if(tools > MANY, work)
}

/// A value with the number of the catalog that it was built from.
type OfCatalog<T> = (u64, Arc<T>);

/// The cache key of a list: view, kind and cursor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// The id of the view.
    pub view: u64,
    /// The kind of the list.
    pub what: What,
    /// The cursor of the page; `None` for the first page.
    pub from: Option<String>,
}

/// The content of a list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum What {
    /// All tools, without pagination.
    Whole(Format, Names),
    /// A page of all tools, in the MCP format.
    Tools(Names),
    /// A page of one source: its `tools`, `prompts`, `resources` or `resourceTemplates`.
    Of(&'static str, String),
}

/// A serialized list.
#[derive(Debug, Clone)]
pub struct Kept {
    /// The JSON array.
    pub list: Bytes,
    /// The cursor of the next page.
    pub next: Option<String>,
    /// The bytes after the array in the REST response.
    pub tail: Bytes,
    /// The entity tag of that response.
    pub tag: Option<Arc<str>>,
    /// The compressed array and suffix, created for the first client that accepts gzip.
    packed: Arc<OnceLock<Option<Packed>>>,
}

impl Kept {
    /// Creates a cached list with its pagination state.
    pub fn new(list: Bytes, next: Option<String>, tail: Bytes, tag: Option<Arc<str>>) -> Self {
        Self { list, next, tail, tag, packed: Arc::default() }
    }

    /// Size in bytes, with the compressed form.
    fn size(&self) -> usize {
        2 * self.list.len() + self.tail.len()
    }

    /// The compressed array and suffix; `None` if compression is not worthwhile.
    pub fn packed(&self) -> Option<&Packed> {
        if self.list.len() < packed::WORTH {
            return None;
        }
        let pack = || Packed::of(&[self.list.clone(), self.tail.clone()]);
        let bytes_of_a_tool = 256;
        let made = self.packed.get_or_init(|| aside(self.list.len() / bytes_of_a_tool, pack));
        made.as_ref()
    }

    /// The next items after the cursor, at most [`PAGE`]; `None` for an unknown cursor.
    pub fn page<'a>(
        items: impl Iterator<Item = (&'a str, Json)>,
        cursor: Option<&str>,
    ) -> Option<Self> {
        let mut items = items.peekable();
        if let Some(cursor) = cursor
            && !items.by_ref().any(|(name, _)| name == cursor)
        {
            return None;
        }
        let page: Vec<_> = items.by_ref().take(PAGE).collect();
        let next =
            page.last().filter(|_| items.peek().is_some()).map(|(name, _)| (*name).to_owned());
        let list = Json::array(page.iter().map(|(_, json)| json)).bytes().clone();
        Some(Self::new(list, next, Bytes::new(), None))
    }
}

/// Cache of serialized tool lists.
#[derive(Debug, Default)]
pub struct Lists {
    names: Mutex<HashMap<Names, OfCatalog<AliasMap>>>,
    rendered: Mutex<HashMap<(Format, Names), OfCatalog<Rendered>>>,
    /// Separate renderings for views with their own names, by view id.
    apart: Mutex<Apart>,
    whole: Mutex<Whole>,
}

#[derive(Debug, Default)]
struct Apart {
    names: HashMap<u64, Arc<AliasMap>>,
    rendered: HashMap<(u64, Format), Arc<Rendered>>,
}

#[derive(Debug, Default)]
struct Whole {
    bytes: usize,
    lists: HashMap<Key, Kept>,
}

impl Lists {
    /// The rendered tools of the view in this format, and maybe others; names do not disclose
    /// hidden tools.
    pub fn rendered(&self, view: &View, format: Format, names: Names) -> Arc<Rendered> {
        let Some(own) = self.own_names(view, names) else {
            return self.of_catalog(view.catalog(), format, names);
        };
        let lock = || self.apart.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (view.id, format);
        if let Some(found) = lock().rendered.get(&key) {
            return Arc::clone(found);
        }
        let apart = Arc::new(Rendered::new(view.catalog(), (format, own), RENDERED.1, None));
        let mut kept = lock();
        if kept.rendered.len() >= APART {
            kept.rendered.clear();
        }
        kept.rendered.insert(key, Arc::clone(&apart));
        apart
    }

    /// The name table of the view, if it differs from the catalog's.
    fn own_names(&self, view: &View, names: Names) -> Option<Arc<AliasMap>> {
        let has = |name: &str| view.find(name).is_some();
        if names == Names::Native || !self.names_of(view.catalog(), names).differs_among(has) {
            return None;
        }
        let lock = || self.apart.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = lock().names.get(&view.id) {
            return Some(Arc::clone(found));
        }
        let tools: Vec<_> = view.tools().map(|entry| entry.name.as_str()).collect();
        let own = aside(tools.len(), || Arc::new(AliasMap::safe(&tools)));
        let mut kept = lock();
        if kept.names.len() >= APART {
            kept.names.clear();
        }
        kept.names.insert(view.id, Arc::clone(&own));
        Some(own)
    }

    /// The name table of the catalog. Only the newest catalog is cached.
    fn names_of(&self, catalog: &Arc<Catalog>, names: Names) -> Arc<AliasMap> {
        let lock = || self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = lock().get(&names).filter(|(of, _)| *of == catalog.number) {
            return Arc::clone(found);
        }
        let all = catalog.tools().map(|entry| entry.name.as_str());
        let made = aside(catalog.len(), || {
            Arc::new(match names {
                Names::Safe => AliasMap::safe(all),
                Names::Native => AliasMap::native(all),
            })
        });
        let gone = lock().insert(names, (catalog.number, Arc::clone(&made)));
        gateway::away(catalog.len() > MANY, gone);
        made
    }

    /// The rendered tools of the catalog in this format. Only the newest catalog is cached.
    fn of_catalog(&self, catalog: &Arc<Catalog>, format: Format, names: Names) -> Arc<Rendered> {
        let key = (format, names);
        let before = {
            let cached = self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
            match cached.get(&key) {
                Some((of, found)) if *of == catalog.number => return Arc::clone(found),
                other => other.map(|(_, before)| Arc::clone(before)),
            }
        };
        let aliases = self.names_of(catalog, names);
        let tools = before.as_ref().map_or(0, |before| before.len());
        // Built outside the lock: after a change two callers may do it at once, with the same
        // result.
        let rendered = aside(tools, || {
            let of = (format, aliases);
            Arc::new(Rendered::new(catalog, of, RENDERED.0, before.as_deref()))
        });
        let mut cached = self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = cached.insert(key, (catalog.number, Arc::clone(&rendered)));
        drop(cached);
        gateway::away(tools > MANY, (gone, before));
        rendered
    }

    /// Returns the cached list, or builds and caches it.
    pub fn kept(&self, key: Key, join: impl FnOnce() -> Option<Kept>) -> Option<Kept> {
        if let Some(found) =
            self.whole.lock().unwrap_or_else(PoisonError::into_inner).lists.get(&key)
        {
            return Some(found.clone());
        }
        // This may render a thousand tools.
        let kept = aside(PAGE, join)?;
        let mut whole = self.whole.lock().unwrap_or_else(PoisonError::into_inner);
        if whole.bytes + kept.size() > CAP {
            gateway::away(true, std::mem::take(&mut *whole));
        }
        whole.bytes += kept.size();
        // Two callers may have built the same list at once; it is cached and counted once.
        let before = whole.lists.insert(key, kept.clone());
        whole.bytes -= before.map_or(0, |before| before.size());
        Some(kept)
    }

    /// Resolves the name that a model used to the native tool name: aliases are resolved before any
    /// decision. Aliases of tools outside the view are not resolved, so that their names are not
    /// disclosed.
    pub fn native(&self, view: &View, name: &str) -> String {
        if view.find(name).is_some() {
            return name.to_owned();
        }
        // Only the name table is used: a mistyped name renders nothing.
        let own = self.own_names(view, Names::Safe);
        let names = own.unwrap_or_else(|| self.names_of(view.catalog(), Names::Safe));
        let found = names.name(name).filter(|found| view.find(found).is_some());
        found.unwrap_or(name).to_owned()
    }
}

#[cfg(test)]
mod tests;
