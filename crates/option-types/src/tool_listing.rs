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
    /// Organisations in which tool search learns from calls; [`ALL_ORGS`](Self::ALL_ORGS) names each, and each learns
    /// for itself.
    pub learning_orgs: Vec<String>,
}

impl ListingOptions {
    /// The default of the field [`auto_tokens`](Self::auto_tokens).
    pub const DEFAULT_AUTO_TOKENS: usize = 10_000;

    /// The entry of [`learning_orgs`](Self::learning_orgs) that means all organisations.
    pub const ALL_ORGS: &str = "*";

    /// Returns whether tool search learns in all organisations.
    pub fn learns_everywhere(&self) -> bool {
        self.learning_orgs.iter().any(|org| org == Self::ALL_ORGS)
    }

    /// Returns whether tool search learns in an organisation.
    pub fn learns_in(&self, org: &str) -> bool {
        self.learning_orgs.iter().any(|it| it == Self::ALL_ORGS || it == org)
    }

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
            learning_orgs: Vec::new(),
        }
    }
}
