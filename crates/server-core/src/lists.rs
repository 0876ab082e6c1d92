//! Lists of tools as bytes. Each tool is rendered when it is first asked for, once per catalog and format;
//! each list is joined once per view. Rendered tools and whole lists are kept in caches with caps in bytes.

mod rendered;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use catalog::{Catalog, Entry};
use formats::{AliasMap, Format};
use gateway::View;
use tokio::runtime::{Handle, RuntimeFlavor};
use tool::Json;

use crate::packed::{self, Packed};
pub use rendered::Rendered;

/// Bytes of whole lists that are kept; past that the cache starts anew.
const CAP: usize = 64 << 20;
/// Tools whose rendering takes about a millisecond: where there are more, other calls go on meanwhile.
const MANY: usize = 500;
/// Views whose names are kept apart; past that they are made anew.
const APART: usize = 64;
/// Bytes of rendered tools that are kept of one format, and of one of such a view; past that they begin anew.
/// There are eight formats with their ways of names: 128 MiB and 64 MiB in all.
const RENDERED: (usize, usize) = (16 << 20, 1 << 20);
/// The most tools of one page, at every door.
pub const PAGE: usize = 1_000;

/// Part of a view.
#[derive(Debug)]
pub struct Page<'a> {
    /// Its tools.
    pub tools: Vec<&'a Arc<Entry>>,
    /// The cursor of the page after it; `None` at the end.
    pub next: Option<String>,
}

/// The next tools of a view that fit, at most `limit`. A cursor is the name of the last tool of the page
/// before: it holds across catalogs, as long as that tool is there. `None` where it is not.
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

/// The tools of a view behind a cursor, which is the name of one of them; all where there is no cursor.
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

/// How names are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Names {
    /// As every provider takes them.
    Safe,
    /// As the source gave them.
    Native,
}

/// Does what takes long for so many tools where no other call waits for it.
pub fn aside<T>(tools: usize, work: impl FnOnce() -> T) -> T {
    let many = tools > MANY;
    let threads = |handle: Handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread;
    if many && Handle::try_current().is_ok_and(threads) {
        return tokio::task::block_in_place(work);
    }
    work()
}

/// With the number of the catalog it was made of.
type OfCatalog<T> = (u64, Arc<T>);

/// A list that is kept: of a view, of what, and from where on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// The view's id.
    pub view: u64,
    /// What of it.
    pub what: What,
    /// The cursor of a page; `None` from the beginning.
    pub from: Option<String>,
}

/// What a list is of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum What {
    /// All tools, without pages.
    Whole(Format, Names),
    /// A page of all tools, as MCP has them.
    Tools(Names),
    /// A page of one source's: its `tools`, `prompts`, `resources` or `resourceTemplates`.
    Of(&'static str, String),
}

/// A list as bytes.
#[derive(Debug, Clone)]
pub struct Kept {
    /// A JSON array.
    pub list: Bytes,
    /// The cursor of the page after it.
    pub next: Option<String>,
    /// What stands behind the array in an answer of the REST door.
    pub tail: Bytes,
    /// The entity tag of that answer.
    pub tag: Option<Arc<str>>,
    /// List and tail as gzip, from the first client on that takes it.
    packed: Arc<OnceLock<Option<Packed>>>,
}

impl Kept {
    /// As it is sent, and as it goes on.
    pub fn new(list: Bytes, next: Option<String>, tail: Bytes, tag: Option<Arc<str>>) -> Self {
        Self { list, next, tail, tag, packed: Arc::default() }
    }

    /// Packed or not.
    fn size(&self) -> usize {
        2 * self.list.len() + self.tail.len()
    }

    /// List and tail as gzip; `None` where that is not worth it.
    pub fn packed(&self) -> Option<&Packed> {
        if self.list.len() < packed::WORTH {
            return None;
        }
        let pack = || Packed::of(&[self.list.clone(), self.tail.clone()]);
        let bytes_of_a_tool = 256;
        let made = self.packed.get_or_init(|| aside(self.list.len() / bytes_of_a_tool, pack));
        made.as_ref()
    }

    /// The next items behind the cursor, at most [`PAGE`]; `None` where nothing has the cursor's name.
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

/// Lists that were written once and are sent often.
#[derive(Debug, Default)]
pub struct Lists {
    names: Mutex<HashMap<Names, OfCatalog<AliasMap>>>,
    rendered: Mutex<HashMap<(Format, Names), OfCatalog<Rendered>>>,
    /// Of views whose names are others, by their ids.
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
    /// The view's tools in this format, and maybe more than those: no name tells of what is hidden.
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

    /// The names of the view's tools, where they are others than in the catalog.
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

    /// The names of the catalog's tools. Only the newest catalog's are kept.
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

    /// The catalog's tools in this format. Only the newest catalog's are kept.
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
        // Made outside the lock: two callers may do it at once after a change, and agree.
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

    /// A list that is kept, or made and kept.
    pub fn kept(&self, key: Key, join: impl FnOnce() -> Option<Kept>) -> Option<Kept> {
        if let Some(found) =
            self.whole.lock().unwrap_or_else(PoisonError::into_inner).lists.get(&key)
        {
            return Some(found.clone());
        }
        // It may render a thousand tools.
        let kept = aside(PAGE, join)?;
        let mut whole = self.whole.lock().unwrap_or_else(PoisonError::into_inner);
        if whole.bytes + kept.size() > CAP {
            gateway::away(true, std::mem::take(&mut *whole));
        }
        whole.bytes += kept.size();
        // Two callers may have joined the same list at once; it is kept, and counted, once.
        let before = whole.lists.insert(key, kept.clone());
        whole.bytes -= before.map_or(0, |before| before.size());
        Some(kept)
    }

    /// The tool's own name for a name a model used: an alias is resolved before anything is decided.
    /// The alias of a tool outside the view is no alias: what is told of it would be the tool's name.
    pub fn native(&self, view: &View, name: &str) -> String {
        if view.find(name).is_some() {
            return name.to_owned();
        }
        // The names alone: nothing is rendered for a name that somebody mistyped.
        let own = self.own_names(view, Names::Safe);
        let names = own.unwrap_or_else(|| self.names_of(view.catalog(), Names::Safe));
        let found = names.name(name).filter(|found| view.find(found).is_some());
        found.unwrap_or(name).to_owned()
    }
}

#[cfg(test)]
mod tests;
