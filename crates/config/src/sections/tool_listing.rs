//! How MCP clients get the tools of a caller.

use std::collections::BTreeMap;

use option_types::{ListingMode, ListingOptions};
use tool::Org;

use crate::config_value::{ConfigValue, ValueParser as _};
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
        pub learning_orgs as "learn": Vec<String> = list(text().convert_text(parse_learning_org));
    }
}

fn parse_learning_org(value: ConfigValue<'_>, text: &str) -> Option<String> {
    if text != ListingOptions::ALL_ORGS
        && let Err(error) = text.parse::<Org>()
    {
        value.report(error.to_string(), "");
        return None;
    }
    Some(text.to_owned())
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

#[cfg(test)]
mod tests {
    use crate::tests::{error_lines, load_yaml, valid_config};

    #[test]
    fn an_entry_of_learn_is_the_name_of_an_organisation_or_all() {
        let text = |orgs: &str| format!("version: 1\nserver: {{ search: {{ learn: {orgs} }} }}\n");
        let config = valid_config(&text("[acme, '*']"));
        assert_eq!(config.server.search.learning_orgs, ["acme", "*"]);
        let errors = error_lines(&load_yaml(&text("[acme, 'not a name', '**']"), &[]));
        assert_eq!(errors.len(), 2, "{errors:?}");
    }
}
