//! The list of MCP extensions that are relayed between a source and clients.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::tool_selection::name_list;
use crate::config_value::{ConfigValue, ValueParser};
use crate::section::SchemaDefinitions;

/// Parses a list of extensions.
pub(super) struct ExtensionNamesParser;

/// Names of extensions: `PREFIX/NAME`, as MCP requires.
pub(super) fn extension_names() -> ExtensionNamesParser {
    ExtensionNamesParser
}

fn is_extension_name(name: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    name.split_once('/').is_some_and(|(prefix, own)| is_part(prefix) && is_part(own))
}

impl ValueParser for ExtensionNamesParser {
    type Output = BTreeSet<String>;

    fn parse_value(&self, value: ConfigValue<'_>) -> Option<BTreeSet<String>> {
        let names = name_list().parse_value(value)?;
        for name in names.iter().filter(|name| !is_extension_name(name)) {
            let message = format!("`{}` is not the name of an MCP extension", name.escape_debug());
            value.report(message, "write its prefix too, as in `io.modelcontextprotocol/ui`");
        }
        Some(names)
    }

    fn json_schema(&self, _: &mut SchemaDefinitions) -> Value {
        let name = "^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$";
        json!({ "anyOf": [
            { "type": "string" },
            { "type": "array", "items": { "type": "string", "pattern": name } },
        ] })
    }
}
