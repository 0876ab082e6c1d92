//! Selection of tools of a source by an operator.

use std::collections::BTreeSet;

/// The tools of a source that a setting applies to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolSelection {
    /// The setting applies to no tool.
    #[default]
    None,
    /// The setting applies to every tool.
    All,
    /// The setting applies to the named tools.
    Names(BTreeSet<String>),
}

impl ToolSelection {
    /// Returns whether the selection contains this tool.
    pub fn contains(&self, name: &str) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Names(names) => names.contains(name),
        }
    }

    /// Returns the names in the selection.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let names = if let Self::Names(names) = self { Some(names) } else { None };
        names.into_iter().flatten().map(String::as_str)
    }
}
