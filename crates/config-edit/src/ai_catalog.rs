//! AI catalogs: the document at `/.well-known/ai-catalog.json` that names the MCP server cards of a
//! host. Format: AI Catalog 1.0 of `Agent-Card/ai-catalog`.
//!
//! Nested catalogs are not followed, so a catalog that names itself costs one request.

use serde::Deserialize;
use serde_json::Value;

use crate::server_document::{ImportError, MAX_DOCUMENT_BYTES, quote_text};

/// The type of an entry that is an MCP server card.
const CARD_TYPE: &str = "application/mcp-server-card+json";
/// Maximum number of entries.
const MAX_ENTRIES: usize = 1_000;
/// Maximum number of entries that an error lists.
const MAX_LISTED: usize = 10;

/// An AI catalog: the list of what a host offers to agents.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AiCatalog {
    spec_version: String,
    entries: Vec<CatalogEntry>,
}

#[derive(Debug, Deserialize)]
struct CatalogEntry {
    identifier: String,
    #[serde(rename = "type")]
    media_type: String,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    data: Option<Value>,
}

/// The place of a server card.
#[derive(Debug)]
pub enum CardLocation {
    /// The URL of the card, absolute or relative to the catalog.
    Url(String),
    /// The card itself.
    Inline(Value),
}

impl AiCatalog {
    /// Parses a catalog from its JSON text.
    ///
    /// # Errors
    /// A catalog that is too large, no JSON, or of another version.
    pub fn parse(text: &[u8]) -> Result<Self, ImportError> {
        if text.len() > MAX_DOCUMENT_BYTES {
            let message = format!("the AI catalog is larger than {MAX_DOCUMENT_BYTES} bytes");
            return Err(ImportError::invalid(message));
        }
        let catalog: Self = serde_json::from_slice(text).map_err(|error| {
            let error = quote_text(&error.to_string());
            ImportError::invalid(format!("the AI catalog is not valid: {error}"))
        })?;
        if catalog.spec_version.split('.').next() != Some("1") {
            let version = quote_text(&catalog.spec_version);
            let message = format!("the AI catalog has the version `{version}`");
            return Err(ImportError::invalid(message).with_help("supported is version 1"));
        }
        if catalog.entries.len() > MAX_ENTRIES {
            let message = format!("the AI catalog has more than {MAX_ENTRIES} entries");
            return Err(ImportError::invalid(message));
        }
        Ok(catalog)
    }

    /// Finds the server card: the one with this identifier, or the only one.
    ///
    /// # Errors
    /// There is none, or several without a choice; an entry without one place.
    pub fn find_card(self, identifier: Option<&str>) -> Result<CardLocation, ImportError> {
        let count = self.entries.len();
        let is_card = |entry: &CatalogEntry| entry.media_type == CARD_TYPE;
        let cards: Vec<_> = self.entries.into_iter().filter(is_card).collect();
        let list = |cards: &[CatalogEntry]| {
            let names = cards.iter().take(MAX_LISTED);
            names
                .map(|entry| format!("`{}`", quote_text(&entry.identifier)))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let listed = list(&cards);
        let total = cards.len();
        let is_wanted =
            |entry: &CatalogEntry| identifier.is_none_or(|wanted| entry.identifier == wanted);
        let mut wanted: Vec<_> = cards.into_iter().filter(is_wanted).collect();
        let entry = match (wanted.pop(), wanted.is_empty()) {
            (Some(entry), true) => entry,
            (None, _) if total == 0 => {
                let message = format!(
                    "the AI catalog names no MCP server card among its {count} entries; catalogs \
                     within it are not followed"
                );
                return Err(ImportError::invalid(message));
            }
            _ => {
                let message = format!("the AI catalog names {total} MCP server cards");
                return Err(ImportError {
                    kind: crate::ImportErrorKind::InvalidInput,
                    ..ImportError::invalid(message)
                }
                .with_help(format!("choose one with `--entry IDENTIFIER`: {listed}")));
            }
        };
        match (entry.url, entry.data) {
            (Some(url), None) => Ok(CardLocation::Url(url)),
            (None, Some(card)) => Ok(CardLocation::Inline(card)),
            _ => {
                let name = quote_text(&entry.identifier);
                let message =
                    format!("the entry `{name}` of the AI catalog has not one of `url` and `data`");
                Err(ImportError::invalid(message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{AiCatalog, CardLocation};

    fn parse(entries: &Value) -> AiCatalog {
        let text = json!({"specVersion": "1.0", "entries": entries}).to_string();
        AiCatalog::parse(text.as_bytes()).unwrap()
    }

    fn card(name: &str) -> Value {
        json!({"identifier": name, "type": "application/mcp-server-card+json",
            "url": format!("https://a.example/{name}")})
    }

    #[test]
    fn the_only_card_is_found_among_other_entries() {
        let skill = json!({"identifier": "s", "type": "application/agent-skills+zip", "url": "x"});
        let found = parse(&json!([skill, card("m")])).find_card(None).unwrap();
        assert!(matches!(found, CardLocation::Url(url) if url == "https://a.example/m"));
        let inline = json!({"identifier": "i", "type": "application/mcp-server-card+json",
            "data": {"name": "a/b"}});
        let found = parse(&json!([inline])).find_card(None).unwrap();
        assert!(matches!(found, CardLocation::Inline(card) if card["name"] == "a/b"));
    }

    #[test]
    fn of_several_cards_one_is_chosen() {
        let error = parse(&json!([card("a"), card("b")])).find_card(None).unwrap_err();
        assert_eq!(error.message, "the AI catalog names 2 MCP server cards");
        assert!(error.help.unwrap().ends_with("`a`, `b`"));
        let found = parse(&json!([card("a"), card("b")])).find_card(Some("a")).unwrap();
        assert!(matches!(found, CardLocation::Url(url) if url == "https://a.example/a"));
        assert!(parse(&json!([card("a")])).find_card(Some("c")).is_err());
    }

    #[test]
    fn a_catalog_that_names_itself_names_no_card() {
        let own = json!({"identifier": "c", "type": "application/ai-catalog+json",
            "url": "/.well-known/ai-catalog.json"});
        let error = parse(&json!([own])).find_card(None).unwrap_err();
        assert!(error.message.contains("no MCP server card among its 1 entries"), "{error:?}");
        for entry in [
            json!({"identifier": "e", "type": "application/mcp-server-card+json"}),
            json!({"identifier": "e", "type": "application/mcp-server-card+json", "url": "a", "data": {}}),
        ] {
            assert!(parse(&json!([entry])).find_card(None).is_err());
        }
    }

    #[test]
    fn what_is_no_catalog_is_refused() {
        for text in [
            "",
            "[]",
            r#"{"entries": []}"#,
            r#"{"specVersion": "2.0", "entries": []}"#,
            r#"{"specVersion": "1.0", "entries": {}}"#,
        ] {
            assert!(AiCatalog::parse(text.as_bytes()).is_err(), "{text}");
        }
        let deep = format!("{{\"specVersion\":\"1.0\",\"entries\":{}", "[".repeat(100_000));
        assert!(AiCatalog::parse(deep.as_bytes()).is_err());
        let many = vec![card("x"); super::MAX_ENTRIES + 1];
        let text = json!({"specVersion": "1.0", "entries": many}).to_string();
        assert!(AiCatalog::parse(text.as_bytes()).is_err());
    }
}
