//! Which tools of a source an operator means.

use std::collections::BTreeSet;

/// Which tools of a source a setting is for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolSelection {
    /// None.
    #[default]
    None,
    /// Every one.
    All,
    /// Those of these names.
    Names(BTreeSet<String>),
}

impl ToolSelection {
    /// Whether it holds for this tool.
    pub fn holds(&self, name: &str) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Names(names) => names.contains(name),
        }
    }

    /// The names it was written with.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let names = if let Self::Names(names) = self { Some(names) } else { None };
        names.into_iter().flatten().map(String::as_str)
    }
}
