//! Tools of a source, by their names.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::node::{Kind, shorten};
use crate::section::Definitions;
use crate::shown::Show;
use crate::value::{ConfigValue, ValueParser};

/// All tools of a source, or some.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Tools {
    /// All.
    All,
    /// These; none where it is empty.
    Named(BTreeSet<String>),
}

impl Tools {
    /// None.
    pub const NONE: Self = Self::Named(BTreeSet::new());

    /// Whether this one is among them.
    pub fn has(&self, tool: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.contains(tool),
        }
    }
}

impl Default for Tools {
    fn default() -> Self {
        Self::NONE
    }
}

impl Show for Tools {
    fn show(&self) -> Value {
        match self {
            Self::All => true.into(),
            Self::Named(names) => json!(names),
        }
    }
}

pub(crate) struct ToolsParser;

/// `true` for all tools, `false` for none, or a list of their names.
pub(crate) fn tools() -> ToolsParser {
    ToolsParser
}

impl ValueParser for ToolsParser {
    type Output = Tools;

    fn parse(&self, value: ConfigValue<'_>) -> Option<Tools> {
        match &value.node.kind {
            Kind::List(_) => Some(Tools::Named(texts(value)?.into_iter().collect())),
            Kind::Scalar(scalar) if scalar.truth() == Some(true) => Some(Tools::All),
            Kind::Scalar(scalar) if scalar.truth() == Some(false) => Some(Tools::NONE),
            _ => {
                unexpected(value, "`true`, `false` or a list of tool names");
                None
            }
        }
    }
    fn schema(&self, _: &mut Definitions) -> Value {
        json!({ "anyOf": [{ "type": "boolean" }, { "type": "array", "items": { "type": "string" } }] })
    }
}

pub(crate) struct NamesParser;

/// Names: a list, or a text that holds one.
pub(crate) fn names() -> NamesParser {
    NamesParser
}

impl ValueParser for NamesParser {
    type Output = BTreeSet<String>;

    fn parse(&self, value: ConfigValue<'_>) -> Option<BTreeSet<String>> {
        let names = match &value.node.kind {
            Kind::List(_) => texts(value)?,
            Kind::Scalar(scalar) if scalar.value().is_string() => {
                listed(&scalar.text).map_err(|error| value.fault(error, "")).ok()?
            }
            _ => {
                unexpected(value, "a list of names, or a text such as `a,b`");
                return None;
            }
        };
        Some(names.into_iter().collect())
    }
    fn schema(&self, _: &mut Definitions) -> Value {
        json!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] })
    }
}

/// A list in a text, as spec 0's settings have it: a JSON array of texts, or names with commas.
pub(crate) fn listed(text: &str) -> Result<Vec<String>, String> {
    if text.trim_start().starts_with('[') {
        return serde_json::from_str(text).map_err(|error| format!("this is no list: {error}"));
    }
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    Ok(names.map(str::to_owned).collect())
}

/// A list in which each item must hold a text.
fn texts(value: ConfigValue<'_>) -> Option<Vec<String>> {
    let text = |item: ConfigValue<'_>| match item.node.kind {
        Kind::Broken => item.parse(&crate::parsers::text()),
        _ => Some(item.scalar("a text")?.text.clone()),
    };
    value.items()?.map(text).collect()
}

/// Reports a value of another type.
pub(crate) fn unexpected(value: ConfigValue<'_>, expected: &str) {
    let found = match &value.node.kind {
        Kind::Scalar(scalar) => match scalar.value() {
            Value::Bool(truth) => format!("boolean `{truth}`"),
            Value::Number(number) if number.is_f64() => format!("floating point `{number}`"),
            Value::Number(number) => format!("integer `{number}`"),
            _ => format!("`{}`", shorten(&scalar.text)),
        },
        _ => value.node.found(),
    };
    value.fault(format!("expected {expected}, found {found}"), "");
}
