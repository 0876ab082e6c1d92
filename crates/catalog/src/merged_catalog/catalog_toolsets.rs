//! The toolsets of a catalog, and the catalogs that are selections.

use std::collections::BTreeMap;
use std::sync::Arc;

use tool::SourceName;

use super::{Catalog, ToolPosition};
use crate::catalog_entry::CatalogEntry;
use crate::toolset::Toolset;

impl Catalog {
    /// Returns the same items with other toolsets.
    #[must_use]
    pub fn with_toolsets(
        &self,
        version: u64,
        toolsets: Arc<BTreeMap<SourceName, Arc<Toolset>>>,
    ) -> Self {
        Self { version, toolsets, ..self.clone() }
    }

    /// Returns a catalog without items, for callers for whom nothing exists.
    pub fn without_items(version: u64) -> Self {
        Self { version, is_selection: true, ..Self::default() }
    }

    /// Finds a toolset by name.
    pub fn find_toolset(&self, name: &str) -> Option<&Arc<Toolset>> {
        self.toolsets.get(name)
    }

    /// Iterates over the toolsets by name.
    pub fn list_toolsets(&self) -> impl Iterator<Item = &Arc<Toolset>> {
        self.toolsets.values()
    }

    /// Returns true if it is the selection of a toolset, or nothing.
    pub fn is_selection(&self) -> bool {
        self.is_selection
    }

    /// Returns it as the first selection of a toolset, without items.
    pub(crate) fn start_selection(&self) -> Self {
        Self { hash_state: self.hash_state.clone(), is_selection: true, ..Self::default() }
    }

    /// Finds a tool that a toolset offers under another name.
    pub(super) fn find_renamed(
        &self,
        slot: usize,
        own_name: &str,
    ) -> Option<(ToolPosition, &Arc<CatalogEntry>)> {
        let part = self.merged_source_at(slot).filter(|_| self.is_selection)?;
        let mut tools = part.tools_from(0).iter().enumerate();
        tools.find_map(|(index, entry)| {
            let entry = entry.as_ref().filter(|it| it.tool_key.name.as_str() == own_name)?;
            Some((ToolPosition::from_indices(slot, index), entry))
        })
    }
}
