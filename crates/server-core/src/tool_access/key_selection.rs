//! The tools that exist for a key that is bound to a toolset.

use std::sync::Arc;

use catalog::CatalogEntry;
use gateway::{CatalogView, Gateway};
use identity::RightsClass;
use tool::CallerType;

/// The tools that exist for a class that is bound to a toolset; all for other classes.
pub(super) struct KeySelection(Option<Arc<CatalogView>>);

impl KeySelection {
    pub(super) fn of_class(gateway: &Gateway, rights: &RightsClass) -> Self {
        let is_bound = !rights.restrictions().toolsets.is_empty();
        Self(is_bound.then(|| gateway.view_for_class(rights, CallerType::Direct)))
    }

    pub(super) fn contains(&self, entry: &CatalogEntry) -> bool {
        let selection = self.0.as_ref().map(|view| view.full_catalog());
        selection.is_none_or(|catalog| catalog.find_by_key(&entry.tool_key).is_some())
    }
}
