//! Lists of tools as bytes. Each tool is rendered once per catalog and format; each list is joined
//! once per view; whole lists are kept in a cache with a cap in bytes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use catalog::Catalog;
use formats::{AliasMap, Format};
use gateway::View;
use tool::Json;

/// Bytes of whole lists that are kept; past that the cache starts anew.
const CAP: usize = 64 << 20;

/// How names are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Names {
    /// As every provider takes them.
    Safe,
    /// As the source gave them.
    Native,
}

/// One catalog's tools in one format.
#[derive(Debug)]
pub(crate) struct Rendered {
    pub(crate) names: AliasMap,
    fragments: HashMap<String, Json>,
}

impl Rendered {
    fn new(catalog: &Catalog, format: Format, names: Names) -> Self {
        let all = catalog.tools().iter().map(|entry| entry.key.name.as_str());
        let names = match names {
            Names::Safe => AliasMap::safe(all),
            Names::Native => AliasMap::native(all),
        };
        let fragment = |entry: &Arc<catalog::Entry>| {
            let name = entry.key.name.as_str();
            let written = formats::fragment(format, &entry.tool, names.alias(name).unwrap_or(name));
            (name.to_owned(), written)
        };
        let fragments = catalog.tools().iter().map(fragment).collect();
        Self { names, fragments }
    }

    /// One tool.
    pub(crate) fn fragment(&self, name: &str) -> Option<&Json> {
        self.fragments.get(name)
    }
}

/// With the number of the catalog it was made of.
type OfCatalog = (u64, Arc<Rendered>);

#[derive(Debug, Default)]
pub(crate) struct Lists {
    rendered: Mutex<HashMap<(Format, Names), OfCatalog>>,
    whole: Mutex<Whole>,
}

#[derive(Debug, Default)]
struct Whole {
    bytes: usize,
    lists: HashMap<(u64, Format, Names), Bytes>,
}

impl Lists {
    /// The catalog's tools in this format. Only the newest catalog's are kept.
    pub(crate) fn rendered(
        &self,
        catalog: &Arc<Catalog>,
        format: Format,
        names: Names,
    ) -> Arc<Rendered> {
        let key = (format, names);
        {
            let cached = self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, found)) = cached.get(&key).filter(|(of, _)| *of == catalog.number) {
                return Arc::clone(found);
            }
        }
        // Rendered outside the lock: two callers may do it at once after a change, and agree.
        let rendered = Arc::new(Rendered::new(catalog, format, names));
        let mut cached = self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        cached.insert(key, (catalog.number, Arc::clone(&rendered)));
        rendered
    }

    /// All tools of a view in one list.
    pub(crate) fn whole(&self, view: &View, format: Format, names: Names) -> Bytes {
        let key = (view.id, format, names);
        if let Some(found) =
            self.whole.lock().unwrap_or_else(PoisonError::into_inner).lists.get(&key)
        {
            return found.clone();
        }
        let rendered = self.rendered(view.catalog(), format, names);
        let fragments = view.tools().filter_map(|entry| rendered.fragment(entry.key.name.as_str()));
        let list = formats::list(format, fragments).bytes().clone();
        let mut whole = self.whole.lock().unwrap_or_else(PoisonError::into_inner);
        if whole.bytes + list.len() > CAP {
            *whole = Whole::default();
        }
        whole.bytes += list.len();
        whole.lists.insert(key, list.clone());
        list
    }

    /// The tool's own name for a name a model used: an alias is resolved before anything is decided.
    pub(crate) fn native(&self, view: &View, name: &str) -> String {
        if view.find(name).is_some() {
            return name.to_owned();
        }
        let rendered = self.rendered(view.catalog(), Format::OpenaiChat, Names::Safe);
        rendered.names.name(name).unwrap_or(name).to_owned()
    }
}
