//! Lists of tools as bytes. Each tool is rendered once per catalog and format; each list is joined
//! once per view; whole lists are kept in a cache with a cap in bytes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use catalog::{Catalog, Entry};
use formats::{AliasMap, Format};
use gateway::View;
use tokio::runtime::{Handle, RuntimeFlavor};
use tool::Json;

use crate::packed::{self, Packed};

/// Bytes of whole lists that are kept; past that the cache starts anew.
const CAP: usize = 64 << 20;
/// Tools whose rendering takes about a millisecond: where there are more, other calls go on meanwhile.
const MANY: usize = 500;
/// Views whose names are kept apart; past that they are made anew.
const APART: usize = 64;
/// The most tools of one page, at every door.
pub(crate) const PAGE: usize = 1_000;

/// Part of a view.
pub(crate) struct Page<'a> {
    pub(crate) tools: Vec<&'a Arc<Entry>>,
    /// The cursor of the page after it; `None` at the end.
    pub(crate) next: Option<String>,
}

/// The next tools of a view, at most `limit`. A cursor is the name of the last tool of the page
/// before: it holds across catalogs, as long as that tool is there. `None` where it is not.
pub(crate) fn page<'a>(view: &'a View, limit: usize, cursor: Option<&str>) -> Option<Page<'a>> {
    let mut tools = behind(view, cursor)?;
    let page: Vec<_> = tools.by_ref().take(limit).collect();
    let more = tools.next().is_some();
    let next = page.last().filter(|_| more).map(|entry| entry.key.name.to_string());
    Some(Page { tools: page, next })
}

/// The tools of a view behind a cursor, which is the name of one of them; all where there is no cursor.
pub(crate) fn behind<'a>(
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
pub(crate) enum Names {
    /// As every provider takes them.
    Safe,
    /// As the source gave them.
    Native,
}

/// Tools in one format: a catalog's, or a view's where those would have other names.
#[derive(Debug)]
pub(crate) struct Rendered {
    pub(crate) names: AliasMap,
    tools: HashMap<String, Written>,
}

/// A tool, and how it was written.
#[derive(Debug)]
struct Written {
    entry: Arc<Entry>,
    rendered: Arc<formats::Rendered>,
}

impl Rendered {
    /// What the catalog before had too, and under the same name, is not written again.
    fn new<'a>(
        tools: impl Iterator<Item = &'a Arc<Entry>> + Clone,
        format: Format,
        names: Names,
        before: Option<&Self>,
    ) -> Self {
        let all = tools.clone().map(|entry| entry.key.name.as_str());
        let names = match names {
            Names::Safe => AliasMap::safe(all),
            Names::Native => AliasMap::native(all),
        };
        let same = |entry: &Arc<Entry>, alias: &str| {
            let name = entry.key.name.as_str();
            let old = before?.tools.get(name).filter(|old| Arc::ptr_eq(&old.entry, entry))?;
            (before?.names.alias(name) == Some(alias)).then(|| Arc::clone(&old.rendered))
        };
        let render = |entry: &Arc<Entry>| {
            let name = entry.key.name.as_str();
            let alias = names.alias(name).unwrap_or(name);
            let rendered = same(entry, alias)
                .unwrap_or_else(|| Arc::new(formats::render(format, &entry.tool, alias)));
            (name.to_owned(), Written { entry: Arc::clone(entry), rendered })
        };
        let tools = tools.map(render).collect();
        Self { names, tools }
    }

    /// One tool with what its format does not say.
    pub(crate) fn tool(&self, name: &str) -> Option<&formats::Rendered> {
        self.tools.get(name).map(|written| written.rendered.as_ref())
    }

    /// One tool; `None` where there is none, or the format cannot say it.
    pub(crate) fn fragment(&self, name: &str) -> Option<&Json> {
        self.tool(name)?.json.as_ref()
    }
}

/// Does what takes long for so many tools where no other call waits for it.
pub(crate) fn aside<T>(tools: usize, work: impl FnOnce() -> T) -> T {
    let many = tools > MANY;
    let threads = |handle: Handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread;
    if many && Handle::try_current().is_ok_and(threads) {
        return tokio::task::block_in_place(work);
    }
    work()
}

/// With the number of the catalog it was made of.
type OfCatalog = (u64, Arc<Rendered>);

/// A list that is kept: of a view, of what, and from where on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// The view's id.
    pub(crate) view: u64,
    pub(crate) what: What,
    /// The cursor of a page; `None` from the beginning.
    pub(crate) from: Option<String>,
}

/// What a list is of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum What {
    /// All tools, without pages.
    Whole(Format, Names),
    /// A page of all tools, as MCP has them.
    Tools(Names),
    /// A page of one source's: its `tools`, `prompts`, `resources` or `resourceTemplates`.
    Of(&'static str, String),
}

/// A list as bytes.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    /// A JSON array.
    pub(crate) list: Bytes,
    /// The cursor of the page after it.
    pub(crate) next: Option<String>,
    /// What stands behind the array in an answer of the REST door.
    pub(crate) tail: Bytes,
    /// The entity tag of that answer.
    pub(crate) tag: Option<Arc<str>>,
    /// List and tail as gzip, from the first client on that takes it.
    packed: Arc<OnceLock<Option<Packed>>>,
}

impl Kept {
    pub(crate) fn new(
        list: Bytes,
        next: Option<String>,
        tail: Bytes,
        tag: Option<Arc<str>>,
    ) -> Self {
        Self { list, next, tail, tag, packed: Arc::default() }
    }

    /// Packed or not.
    fn size(&self) -> usize {
        2 * self.list.len() + self.tail.len()
    }

    /// List and tail as gzip; `None` where that is not worth it.
    pub(crate) fn packed(&self) -> Option<&Packed> {
        if self.list.len() < packed::WORTH {
            return None;
        }
        let pack = || Packed::of(&[self.list.clone(), self.tail.clone()]);
        let bytes_of_a_tool = 256;
        let made = self.packed.get_or_init(|| aside(self.list.len() / bytes_of_a_tool, pack));
        made.as_ref()
    }

    /// The next items behind the cursor, at most [`PAGE`]; `None` where nothing has the cursor's name.
    pub(crate) fn page<'a>(
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

#[derive(Debug, Default)]
pub(crate) struct Lists {
    rendered: Mutex<HashMap<(Format, Names), OfCatalog>>,
    /// Of views whose names are others, by their ids.
    apart: Mutex<HashMap<(u64, Format), Arc<Rendered>>>,
    whole: Mutex<Whole>,
}

#[derive(Debug, Default)]
struct Whole {
    bytes: usize,
    lists: HashMap<Key, Kept>,
}

impl Lists {
    /// The view's tools in this format, and maybe more than those: no name tells of what is hidden.
    pub(crate) fn rendered(&self, view: &View, format: Format, names: Names) -> Arc<Rendered> {
        let all = self.of_catalog(view.catalog(), format, names);
        let same =
            names == Names::Native || !all.names.differs_among(|name| view.find(name).is_some());
        if same {
            return all;
        }
        let key = (view.id, format);
        let lock = || self.apart.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = lock().get(&key) {
            return Arc::clone(found);
        }
        let tools: Vec<_> = view.tools().collect();
        let apart = aside(tools.len(), || {
            Arc::new(Rendered::new(tools.iter().copied(), format, names, Some(&all)))
        });
        let mut kept = lock();
        if kept.len() >= APART {
            kept.clear();
        }
        kept.insert(key, Arc::clone(&apart));
        apart
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
        // Rendered outside the lock: two callers may do it at once after a change, and agree.
        let rendered = aside(catalog.len(), || {
            Arc::new(Rendered::new(catalog.tools(), format, names, before.as_deref()))
        });
        let mut cached = self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = cached.insert(key, (catalog.number, Arc::clone(&rendered)));
        drop(cached);
        let tools = before.as_ref().map_or(0, |before| before.tools.len());
        gateway::away(tools > MANY, (gone, before));
        rendered
    }

    /// A list that is kept, or made and kept.
    pub(crate) fn kept(&self, key: Key, join: impl FnOnce() -> Option<Kept>) -> Option<Kept> {
        if let Some(found) =
            self.whole.lock().unwrap_or_else(PoisonError::into_inner).lists.get(&key)
        {
            return Some(found.clone());
        }
        let kept = join()?;
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
    pub(crate) fn native(&self, view: &View, name: &str) -> String {
        if view.find(name).is_some() {
            return name.to_owned();
        }
        let rendered = self.rendered(view, Format::OpenaiChat, Names::Safe);
        let found = rendered.names.name(name).filter(|found| view.find(found).is_some());
        found.unwrap_or(name).to_owned()
    }
}
