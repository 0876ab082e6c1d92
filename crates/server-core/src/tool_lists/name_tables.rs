//! Name tables of the newest catalog and of views with names of their own.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use catalog::Catalog;
use formats::AliasMap;
use gateway::CatalogView;

use super::{NameStyle, run_blocking_if_many_tools};
use crate::generation_cache::GenerationCache;

/// Maximum size of the tables of views with names of their own, in bytes. A table shares with that
/// of the catalog what is the same.
const MAX_VIEW_TABLE_BYTES: usize = 16 << 20;
/// Size of a name in a table of its own, and of the nodes above a name that is missing, in bytes.
const BYTES_PER_NAME: usize = 256;
const BYTES_PER_MISSING_NAME: usize = 1_024;

/// Names of tools for models, as tables of aliases.
#[derive(Debug)]
pub(super) struct NameTables {
    native: Arc<AliasMap>,
    /// The table of the newest catalog that was listed, with that catalog.
    newest: Mutex<Option<(Arc<Catalog>, Arc<AliasMap>)>>,
    /// Tables of views with names of their own, by view id.
    of_views: Mutex<GenerationCache<u64, Arc<AliasMap>>>,
}

impl Default for NameTables {
    fn default() -> Self {
        Self {
            native: Arc::new(AliasMap::with_native_names()),
            newest: Mutex::default(),
            of_views: Mutex::new(GenerationCache::with_limit(MAX_VIEW_TABLE_BYTES)),
        }
    }
}

impl NameTables {
    /// Returns the name table of a view. It does not disclose hidden tools.
    pub(super) fn names_of(&self, view: &CatalogView, style: NameStyle) -> Arc<AliasMap> {
        if style == NameStyle::Native {
            return Arc::clone(&self.native);
        }
        if view.full_catalog().is_selection() {
            return self.selection_names(view);
        }
        let all = self.catalog_names(view.full_catalog());
        if !all.depends_on_hidden(|name| view.find_tool(name).is_some()) {
            return all;
        }
        self.own_names(view, || {
            let seen: HashSet<&str> = view.list_tools().map(|entry| entry.name.as_str()).collect();
            let names = view.full_catalog().list_tools().map(|entry| entry.name.as_str());
            let hidden: Vec<&str> = names.filter(|name| !seen.contains(name)).collect();
            let bytes = (hidden.len() * BYTES_PER_MISSING_NAME).min(all.len() * BYTES_PER_NAME);
            (Arc::new(all.with_changed_names(&hidden, &[])), bytes)
        })
    }

    /// Returns the name table of a toolset's view. That of the newest catalog knows other names.
    fn selection_names(&self, view: &CatalogView) -> Arc<AliasMap> {
        self.own_names(view, || {
            let names = view.list_tools().map(|entry| entry.name.as_str());
            let bytes = view.full_catalog().len() * BYTES_PER_NAME;
            (Arc::new(AliasMap::with_safe_aliases(names)), bytes)
        })
    }

    /// Returns the kept table of a view, or makes it, with its size in bytes.
    fn own_names(
        &self,
        view: &CatalogView,
        make: impl FnOnce() -> (Arc<AliasMap>, usize),
    ) -> Arc<AliasMap> {
        let lock = || self.of_views.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = lock().get(&view.id) {
            return found;
        }
        let (own, bytes) = run_blocking_if_many_tools(view.full_catalog().len(), make);
        let forgotten = lock().insert(view.id, Arc::clone(&own), bytes + BYTES_PER_MISSING_NAME);
        if !forgotten.is_empty() {
            gateway::drop_in_background(true, forgotten);
        }
        own
    }

    /// Returns the name table of a catalog, which is that of the catalog before it with the names
    /// that changed.
    fn catalog_names(&self, catalog: &Arc<Catalog>) -> Arc<AliasMap> {
        let lock = || self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let before = lock().clone();
        let (names, gone) = match &before {
            Some((of, names)) if Arc::ptr_eq(of, catalog) => return Arc::clone(names),
            Some((of, names)) => (next_names((of, names), catalog), true),
            None => (new_names(catalog), false),
        };
        // A late caller with an old catalog does not replace the table of the new one. Two callers
        // may make one at once, with the same result.
        let mut newest = lock();
        if newest.as_ref().is_none_or(|(of, _)| of.version <= catalog.version) {
            *newest = Some((Arc::clone(catalog), Arc::clone(&names)));
        }
        drop(newest);
        gateway::drop_in_background(gone, before);
        names
    }
}

fn new_names(catalog: &Catalog) -> Arc<AliasMap> {
    let all = catalog.list_tools().map(|entry| entry.name.as_str());
    run_blocking_if_many_tools(catalog.len(), || Arc::new(AliasMap::with_safe_aliases(all)))
}

fn next_names((before, names): (&Catalog, &Arc<AliasMap>), catalog: &Catalog) -> Arc<AliasMap> {
    let changes = catalog.name_changes_since(before);
    let count = changes.removed.len() + changes.added.len();
    if count == 0 {
        return Arc::clone(names);
    }
    if count > catalog.len() {
        return new_names(catalog);
    }
    let text = |names: &[tool::ToolName]| -> Vec<Box<str>> {
        names.iter().map(|name| name.as_str().into()).collect()
    };
    let (removed, added) = (text(&changes.removed), text(&changes.added));
    run_blocking_if_many_tools(count, || Arc::new(names.with_changed_names(&removed, &added)))
}
