//! Selection of tools of a source by an operator.

use std::collections::BTreeSet;

/// The tools of a source that a setting applies to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ToolSelection {
    /// All tools of the source.
    All,
    /// The tools with these names.
    Named(BTreeSet<String>),
}

impl ToolSelection {
    /// The selection without any tool.
    pub const NONE: Self = Self::Named(BTreeSet::new());

    /// Returns whether the selection contains this tool.
    pub fn contains(&self, tool: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.contains(tool),
        }
    }

    /// Returns the names in the selection.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let names = if let Self::Named(names) = self { Some(names) } else { None };
        names.into_iter().flatten().map(String::as_str)
    }
}

impl Default for ToolSelection {
    /// Selects no tool.
    fn default() -> Self {
        Self::NONE
    }
}
