//! Selections of a source's tools, and lists of names.

use std::collections::BTreeSet;

use option_types::ToolSelection;
use serde_json::{Value, json};

use crate::config_display::RedactedJson;
use crate::config_value::{ConfigValue, ValueParser};
use crate::section::SchemaDefinitions;
use crate::value_parsers::text;
use crate::yaml_tree::{NodeKind, shorten_text};

impl RedactedJson for ToolSelection {
    fn to_redacted_json(&self) -> Value {
        match self {
            Self::All => true.into(),
            Self::Named(names) => json!(names),
        }
    }
}

/// Parses a selection of tools.
pub(crate) struct ToolSelectionParser;

/// A selection of tools: `true` for all, `false` for none, or a list of their names.
pub(crate) fn tool_selection() -> ToolSelectionParser {
    ToolSelectionParser
}

impl ValueParser for ToolSelectionParser {
    type Output = ToolSelection;

    fn parse_value(&self, value: ConfigValue<'_>) -> Option<ToolSelection> {
        let boolean = match &value.node.kind {
            NodeKind::List(_) => {
                return Some(ToolSelection::Named(parse_strings(value)?.into_iter().collect()));
            }
            NodeKind::Scalar(scalar) => scalar.as_boolean(),
            _ => None,
        };
        if boolean.is_none() {
            report_type_mismatch(value, "`true`, `false` or a list of tool names");
        }
        boolean.map(|is_all| if is_all { ToolSelection::All } else { ToolSelection::NONE })
    }
    fn json_schema(&self, _: &mut SchemaDefinitions) -> Value {
        json!({ "anyOf": [{ "type": "boolean" }, { "type": "array", "items": { "type": "string" } }] })
    }
}

/// Parses a list of names.
pub(crate) struct NameListParser;

/// Names: a list, or a string that contains one.
pub(crate) fn name_list() -> NameListParser {
    NameListParser
}

impl ValueParser for NameListParser {
    type Output = BTreeSet<String>;

    fn parse_value(&self, value: ConfigValue<'_>) -> Option<BTreeSet<String>> {
        let names = match &value.node.kind {
            NodeKind::List(_) => parse_strings(value)?,
            NodeKind::Scalar(scalar) if scalar.to_json().is_string() => {
                parse_name_list(&scalar.text).map_err(|error| value.report(error, "")).ok()?
            }
            _ => {
                report_type_mismatch(value, "a list of names, or a string such as `a,b`");
                return None;
            }
        };
        Some(names.into_iter().collect())
    }
    fn json_schema(&self, _: &mut SchemaDefinitions) -> Value {
        json!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] })
    }
}

/// Parses a list in a string, as in spec 0's settings: a JSON array of strings, or names with commas.
pub(crate) fn parse_name_list(text: &str) -> Result<Vec<String>, String> {
    if text.trim_start().starts_with('[') {
        return serde_json::from_str(text).map_err(|error| format!("invalid list: {error}"));
    }
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    Ok(names.map(str::to_owned).collect())
}

/// Parses a list of strings, none of which may be null.
fn parse_strings(value: ConfigValue<'_>) -> Option<Vec<String>> {
    let string = |item: ConfigValue<'_>| match item.node.kind {
        NodeKind::Invalid => item.parse_with(&text()),
        _ => Some(item.require_scalar("a string")?.text.clone()),
    };
    value.require_items()?.map(string).collect()
}

/// Reports a value of another type, and names its type.
pub(crate) fn report_type_mismatch(value: ConfigValue<'_>, expected: &str) {
    let actual = match &value.node.kind {
        NodeKind::Scalar(scalar) => match scalar.to_json() {
            Value::Bool(boolean) => format!("boolean `{boolean}`"),
            Value::Number(number) if number.is_f64() => format!("floating point `{number}`"),
            Value::Number(number) => format!("integer `{number}`"),
            _ => format!("`{}`", shorten_text(&scalar.text)),
        },
        _ => value.node.describe_kind(),
    };
    value.report(format!("expected {expected}, found {actual}"), "");
}
