//! Differences between two catalogs.

use std::collections::HashMap;

use tool::{Digest, ToolKey};

use crate::merged_catalog::Catalog;

/// Tools that were added or removed, or changed their definition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CatalogDiff {
    /// Tools that were added.
    pub added: Vec<ToolKey>,
    /// Tools that were removed.
    pub removed: Vec<ToolKey>,
    /// Tools with a changed definition.
    pub changed: Vec<ToolKey>,
}

impl CatalogDiff {
    /// Compares `old` with `new`.
    pub fn compare_catalogs(old: &Catalog, new: &Catalog) -> Self {
        let index = |catalog: &Catalog| -> HashMap<ToolKey, Digest> {
            catalog
                .list_tools()
                .map(|entry| (entry.tool_key.clone(), entry.definition_digest))
                .collect()
        };
        let (before, after) = (index(old), index(new));
        let mut diff = Self::default();
        for entry in new.list_tools() {
            match before.get(&entry.tool_key) {
                None => diff.added.push(entry.tool_key.clone()),
                Some(hash) if *hash != entry.definition_digest => {
                    diff.changed.push(entry.tool_key.clone());
                }
                Some(_) => {}
            }
        }
        let gone =
            |entry: &&std::sync::Arc<crate::CatalogEntry>| !after.contains_key(&entry.tool_key);
        diff.removed = old.list_tools().filter(gone).map(|entry| entry.tool_key.clone()).collect();
        diff
    }

    /// Returns true if nothing changed.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}
