//! How MCP clients get the tools of a caller.

use std::collections::BTreeMap;

/// The form of the list at `/mcp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ListingMode {
    /// The complete definitions of all tools.
    List,
    /// The name and one line of each tool; schemas on demand.
    Deferred,
    /// Tools that search, describe and call all others.
    Search,
    /// [`List`](Self::List) or [`Search`](Self::Search), by client and by the size of the list.
    Auto,
}

impl ListingMode {
    /// All modes, from the longest list to the automatic choice.
    pub const ALL: [Self; 4] = [Self::List, Self::Deferred, Self::Search, Self::Auto];

    /// Returns the word of the mode in configurations and addresses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Deferred => "deferred",
            Self::Search => "search",
            Self::Auto => "auto",
        }
    }

    /// Parses the word of a mode.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == word)
    }
}

/// How MCP clients get tools whose address names no mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListingOptions {
    /// The mode of keys without their own.
    pub mode: ListingMode,
    /// The modes of single keys, by key id.
    pub key_modes: BTreeMap<String, ListingMode>,
    /// Names of tools that no list defers.
    pub always_listed: Vec<String>,
    /// Largest list in tokens that [`ListingMode::Auto`] sends to a client that does not search.
    pub auto_tokens: usize,
}

impl ListingOptions {
    /// The default of the field [`auto_tokens`](Self::auto_tokens).
    pub const DEFAULT_AUTO_TOKENS: usize = 10_000;

    /// Returns the mode of a key.
    pub fn mode_of_key(&self, key_id: &str) -> ListingMode {
        self.key_modes.get(key_id).copied().unwrap_or(self.mode)
    }
}

impl Default for ListingOptions {
    fn default() -> Self {
        Self {
            mode: ListingMode::List,
            key_modes: BTreeMap::new(),
            always_listed: Vec::new(),
            auto_tokens: Self::DEFAULT_AUTO_TOKENS,
        }
    }
}
