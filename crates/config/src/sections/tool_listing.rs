//! How MCP clients get the tools of a caller.

use std::collections::BTreeMap;

use option_types::{ListingMode, ListingOptions};

use crate::section::section;
use crate::value_parsers::{count, keywords, list, mapping, text};

section! {
    /// How MCP clients get the tools of a caller at `/mcp`. A client overrides the mode by `/mcp?mode=MODE`. Takes
    /// effect at the next start.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ToolListingConfig as "ToolListing": Default, RedactedJson {
        /// The mode of keys that `keys` does not name. Default: `list`.
        pub mode: ListingMode = listing_mode(), default ListingMode::List;
        /// Modes of single keys, by key id. Default: none.
        pub key_modes as "keys": BTreeMap<String, ListingMode> = mapping(listing_mode());
        /// Names of tools that no list defers, whatever `defer` of their source says. Default: none.
        pub always_listed as "always": Vec<String> = list(text());
        /// The largest list, in tokens, that `auto` sends to a client that does not search itself: from 1 to 1000000.
        /// Default: 10000.
        pub auto_tokens: usize = count(1_000_000), default ListingOptions::DEFAULT_AUTO_TOKENS;
        /// Organisations in which tool search learns which tools are called after a query, `*` for each: each learns for
        /// itself, in the store. What an organisation that is not named learned before is removed. Default: none.
        pub learning_orgs as "learn": Vec<String> = list(text());
    }
}

impl ToolListingConfig {
    /// Returns the options of the server.
    pub fn to_options(&self) -> ListingOptions {
        ListingOptions {
            mode: self.mode,
            key_modes: self.key_modes.clone(),
            always_listed: self.always_listed.clone(),
            auto_tokens: self.auto_tokens,
            learning_orgs: self.learning_orgs.clone(),
        }
    }
}

keywords! {
    /// What `tools/list` contains.
    fn listing_mode as "ListingWord" -> ListingMode {
        /// The complete definitions of all tools.
        "list" = ListingMode::List,
        /// The name and one line of each tool; `describe_tools` and refused arguments return the schema.
        "deferred" = ListingMode::Deferred,
        /// Tools that search, describe and call all others.
        "search" = ListingMode::Search,
        /// `search` for a list above `auto_tokens`, unless the client is known to search itself; `list` otherwise.
        "auto" = ListingMode::Auto,
    }
}
