//! Differences between two catalogs.

use std::collections::HashMap;

use tool::{Digest, ToolKey};

use crate::merge::Catalog;

/// Tools that were added or removed, or changed their definition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diff {
    /// Tools that were added.
    pub added: Vec<ToolKey>,
    /// Tools that were removed.
    pub removed: Vec<ToolKey>,
    /// Tools with a changed definition.
    pub changed: Vec<ToolKey>,
}

impl Diff {
    /// Compares `old` with `new`.
    pub fn between(old: &Catalog, new: &Catalog) -> Self {
        let index = |catalog: &Catalog| -> HashMap<ToolKey, Digest> {
            catalog.tools().map(|entry| (entry.key.clone(), entry.definition)).collect()
        };
        let (before, after) = (index(old), index(new));
        let mut diff = Self::default();
        for entry in new.tools() {
            match before.get(&entry.key) {
                None => diff.added.push(entry.key.clone()),
                Some(hash) if *hash != entry.definition => diff.changed.push(entry.key.clone()),
                Some(_) => {}
            }
        }
        let gone = |entry: &&std::sync::Arc<crate::Entry>| !after.contains_key(&entry.key);
        diff.removed = old.tools().filter(gone).map(|entry| entry.key.clone()).collect();
        diff
    }

    /// Returns true if nothing changed.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}
