//! The catalog that a rights class may see any part of: the whole one, or the selection of a toolset.
//!
//! This is the only place that narrows a caller to a toolset. Policy decides about what is left, so a
//! toolset never gives a right.

use std::sync::Arc;

use catalog::{Catalog, CatalogSnapshot, Toolset};
use identity::RightsClass;
use policy::Policy;
use tool::SourceName;

use crate::Gateway;

/// Returns the catalog for a rights class, with its toolset. A toolset that does not exist or is not
/// granted leaves nothing, and so do two different ones.
pub(super) fn visible_catalog(
    now: &CatalogSnapshot<Policy>,
    rights: &RightsClass,
) -> (Arc<Catalog>, Option<Arc<Toolset>>) {
    if rights.restrictions().toolsets.is_empty() {
        return (Arc::clone(&now.catalog), None);
    }
    match usable_toolset(now, rights) {
        Some(toolset) => (toolset.select_from(&now.catalog), Some(Arc::clone(toolset))),
        None => (Arc::new(Catalog::without_items(now.catalog.version)), None),
    }
}

/// Returns the one toolset of a rights class, if it exists and is granted.
fn usable_toolset<'a>(
    now: &'a CatalogSnapshot<Policy>,
    rights: &RightsClass,
) -> Option<&'a Arc<Toolset>> {
    let mut names = rights.restrictions().toolsets.iter();
    let (first, others) = (names.next()?, names.next());
    let found = now.catalog.find_toolset(first).filter(|_| others.is_none())?;
    now.policy.grants_toolset(&found.roles, rights).then_some(found)
}

impl Gateway {
    /// Returns true if a rights class with a toolset may use it. No view is built: names of callers
    /// must not fill the cache.
    pub fn may_use_toolset(&self, rights: &RightsClass) -> bool {
        usable_toolset(&self.components.current.load_snapshot(), rights).is_some()
    }

    /// Returns true if a toolset of this name exists, for anybody.
    pub fn has_toolset(&self, name: &str) -> bool {
        self.components.current.load_snapshot().catalog.find_toolset(name).is_some()
    }

    /// Returns the toolsets that a rights class may use, by name. A class that is bound to one knows of
    /// no other.
    pub fn granted_toolsets(&self, rights: &RightsClass) -> Vec<(SourceName, Arc<Toolset>)> {
        let now = self.components.current.load_snapshot();
        let bound = &rights.restrictions().toolsets;
        let is_known = |name: &str| bound.iter().all(|only| only == name);
        let all = now.catalog.list_toolsets().filter(|toolset| {
            is_known(toolset.name.as_str()) && now.policy.grants_toolset(&toolset.roles, rights)
        });
        all.map(|toolset| (toolset.name.clone(), Arc::clone(toolset))).collect()
    }
}
