//! The list of MCP extensions that are relayed between a source and clients, with their methods.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::super::tool_selection::name_list;
use crate::config_value::{ConfigValue, ValueParser};
use crate::section::{SchemaDefinitions, section, subsection};
use crate::value_parsers::{collect_items, list, text};
use crate::yaml_tree::NodeKind;

/// Extensions by their names, with the methods that are relayed.
pub(super) type ExtensionMethods = BTreeMap<String, BTreeSet<String>>;

/// Maximum number of methods of one extension.
const MAX_METHODS: usize = 64;
/// Maximum characters of the name of a method.
const MAX_METHOD_CHARS: usize = 100;
/// Beginnings of the methods that MCP and the extensions that Toolkeep serves have themselves, and those
/// of the names by which prompts, resources and other items are pinned.
const RESERVED_PREFIXES: [&str; 19] = [
    "completion/",
    "elicitation/",
    "event/",
    "events/",
    "logging/",
    "notifications/",
    "prompt/",
    "prompts/",
    "resource/",
    "resources/",
    "roots/",
    "sampling/",
    "server/",
    "skill/",
    "skills/",
    "subscriptions/",
    "tasks/",
    "template/",
    "tools/",
];

section! {
    /// An extension of MCP with methods of its own.
    #[derive(Default)]
    struct ExtensionKeys as "Extension" {
        /// The name of the extension, such as `com.example/charts`.
        name: String = text(), required "write the name of the extension, as in `name: com.example/charts`";
        /// The methods that are relayed, such as `charts/render`. Default: none.
        methods: BTreeSet<String> = list(text()).map(collect_items::<BTreeSet<_>, _>);
    }
}

/// Parses a list of extensions.
pub(super) struct ExtensionNamesParser;

/// Names of extensions, `PREFIX/NAME` as MCP requires, or mappings of a name and methods.
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

/// Whether a method can be one of an extension: `GROUP/NAME` without dots, so that its name in policies is
/// of no other method.
fn is_method_name(method: &str) -> bool {
    let is_part = |part: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        !part.is_empty() && part.bytes().all(fits)
    };
    method.contains('/') && method.len() <= MAX_METHOD_CHARS && method.split('/').all(is_part)
}

fn is_reserved(method: &str) -> bool {
    RESERVED_PREFIXES.iter().any(|it| method.starts_with(it))
}

/// Parses one entry. What is wrong with a method is reported, and the method is left out.
fn parse_entry(value: ConfigValue<'_>) -> Option<(String, BTreeSet<String>)> {
    if !matches!(value.node.kind, NodeKind::Map(_)) {
        return value.parse_with(&text()).map(|name| (name, BTreeSet::new()));
    }
    let ExtensionKeys { name, methods } = value.parse_with(&subsection::<ExtensionKeys>())?;
    if methods.len() > MAX_METHODS {
        let message = format!("an extension has at most {MAX_METHODS} methods");
        value.report(message, "list those that clients call");
        return None;
    }
    let relayed = methods.into_iter().filter(|method| {
        let shown = method.escape_debug();
        if !is_method_name(method) {
            let help = "write it as the server does, such as `charts/render`";
            value.report(format!("`{shown}` is not the method of an extension"), help);
            return false;
        }
        if is_reserved(method) {
            let message = format!("`{shown}` is a method that Toolkeep serves itself");
            value.report(message, "remove it");
            return false;
        }
        true
    });
    Some((name, relayed.collect()))
}

/// Joins the entries. A name or a method that comes twice is reported, and its first entry counts.
fn unique_entries(
    value: ConfigValue<'_>,
    entries: Vec<(String, BTreeSet<String>)>,
) -> ExtensionMethods {
    let (mut extensions, mut seen) = (ExtensionMethods::new(), BTreeSet::new());
    for (name, mut methods) in entries {
        methods.retain(|method| {
            let is_new = seen.insert(method.clone());
            if !is_new {
                value.report(format!("the method `{method}` is listed twice"), "list it once");
            }
            is_new
        });
        if extensions.contains_key(&name) {
            let message = format!("the extension `{}` is listed twice", name.escape_debug());
            value.report(message, "list it once, with all of its methods");
            continue;
        }
        extensions.insert(name, methods);
    }
    extensions
}

impl ValueParser for ExtensionNamesParser {
    type Output = ExtensionMethods;

    fn parse_value(&self, value: ConfigValue<'_>) -> Option<ExtensionMethods> {
        let extensions: ExtensionMethods = if matches!(value.node.kind, NodeKind::List(_)) {
            let entries: Vec<_> = value.require_items()?.map(parse_entry).collect::<Option<_>>()?;
            unique_entries(value, entries)
        } else {
            let names = name_list().parse_value(value)?;
            names.into_iter().map(|name| (name, BTreeSet::new())).collect()
        };
        for name in extensions.keys().filter(|name| !is_extension_name(name)) {
            let message = format!("`{}` is not the name of an MCP extension", name.escape_debug());
            value.report(message, "write its prefix too, as in `io.modelcontextprotocol/ui`");
        }
        Some(extensions)
    }

    fn json_schema(&self, definitions: &mut SchemaDefinitions) -> Value {
        let name = "^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$";
        let entry = subsection::<ExtensionKeys>().json_schema(definitions);
        json!({ "anyOf": [
            { "type": "string" },
            { "type": "array", "items": { "anyOf": [{ "type": "string", "pattern": name }, entry] } },
        ] })
    }
}

/// Writes the extensions as the configuration has them.
pub(super) fn extensions_to_json(extensions: &ExtensionMethods) -> Value {
    let entry = |(name, methods): (&String, &BTreeSet<String>)| {
        if methods.is_empty() { json!(name) } else { json!({ "name": name, "methods": methods }) }
    };
    extensions.iter().map(entry).collect()
}

#[cfg(test)]
mod tests;
