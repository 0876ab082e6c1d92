//! Names in which a catalog differs from one before it.

use std::sync::Arc;

use tool::ToolName;

use crate::Catalog;
use crate::merged_source::MergedSource;

/// Listed names of tools that went and came between two catalogs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NameChanges {
    /// Names that the later catalog lacks, or has at another position.
    pub removed: Vec<ToolName>,
    /// Names that the earlier catalog lacks, or has at another position.
    pub added: Vec<ToolName>,
}

impl Catalog {
    /// Returns the names in which this catalog differs from `before`. Only sources that are not
    /// shared with it are compared.
    pub fn name_changes_since(&self, before: &Self) -> NameChanges {
        let (old, new) = (before.merged_sources(), self.merged_sources());
        let mut changes = NameChanges::default();
        for slot in 0..old.len().max(new.len()) {
            let (old, new) = (source_at(old, slot), source_at(new, slot));
            if old.map(std::ptr::from_ref) != new.map(std::ptr::from_ref) {
                changes.compare_sources(old, new);
            }
        }
        changes
    }
}

fn source_at(sources: &[Option<Arc<MergedSource>>], slot: usize) -> Option<&MergedSource> {
    sources.get(slot)?.as_deref()
}

impl NameChanges {
    fn compare_sources(&mut self, old: Option<&MergedSource>, new: Option<&MergedSource>) {
        let tools = |part: Option<&MergedSource>| part.map_or(0, |part| part.tools_from(0).len());
        for at in 0..tools(old).max(tools(new)) {
            let (old, new) = (old.and_then(|it| it.tool_at(at)), new.and_then(|it| it.tool_at(at)));
            let is_same_entry = old.map(Arc::as_ptr) == new.map(Arc::as_ptr);
            if !is_same_entry && old.map(|old| &old.name) != new.map(|new| &new.name) {
                self.removed.extend(old.map(|old| old.name.clone()));
                self.added.extend(new.map(|new| new.name.clone()));
            }
        }
    }
}
