//! Parses YAML text into the tree, within limits: 1 MiB, 64 levels, and 20,000 values, with every alias counted as a
//! copy.

use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::NonFiniteFloatPolicy;
use serde_saphyr::{Error, Location, Spanned};

use super::yaml_tree::{NodeKind, YamlKey, YamlNode, YamlScalar, shorten_text};
use super::{ConfigError, ConfigPosition};

/// The longest file, in bytes.
pub(crate) const MAX_FILE_BYTES: usize = 1 << 20;
const MAX_DEPTH: usize = 64;
const MAX_NODES: usize = 20_000;

/// Parses a file of one document.
pub(crate) fn parse_document(file: &Path, text: &str) -> Result<YamlNode, ConfigError> {
    if text.len() > MAX_FILE_BYTES {
        let message =
            format!("the file has {} bytes; at most {MAX_FILE_BYTES} are allowed", text.len());
        return Err(ConfigError::new(file, ConfigPosition::START, message));
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_documents: 1,
        },
        strict_booleans: true,
        with_snippet: false,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
    };
    let parsed: Spanned<ParsedValue> = match serde_saphyr::from_str_with_options(text, options) {
        Ok(parsed) => parsed,
        Err(error) => return Err(syntax_error(file, text, &error)),
    };
    Ok(build_node(text, parsed))
}

fn syntax_error(file: &Path, text: &str, error: &Error) -> ConfigError {
    let position = error.location().map_or(ConfigPosition::START, to_position);
    let message = match error {
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("the key `{}` occurs twice", shorten_text(key))
        }
        other => {
            // The excerpt shows the position, so the message need not.
            let message = other.to_string();
            message.split(" at line ").next().unwrap_or(&message).to_owned()
        }
    };
    let syntax_error = ConfigError::new(file, position, message).with_excerpt(text);
    match error {
        _ if has_tab_indent(text, position) => {
            syntax_error.with_help("indent with spaces: YAML allows no tabs there")
        }
        Error::UnknownAnchor { .. } => {
            syntax_error.with_help("put a string that begins with `*` in quotes")
        }
        _ => syntax_error,
    }
}

/// Whether the line at a position is indented with a tab.
fn has_tab_indent(text: &str, position: ConfigPosition) -> bool {
    let line = text.lines().nth(position.line.saturating_sub(1)).unwrap_or_default();
    line.chars().take_while(|c| c.is_whitespace()).any(|c| c == '\t')
}

fn to_position(location: Location) -> ConfigPosition {
    let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).max(1);
    ConfigPosition { line: number(location.line()), column: number(location.column()) }
}

fn build_node(text: &str, parsed: Spanned<ParsedValue>) -> YamlNode {
    let source_text = scalar_source(text, parsed.defined);
    let scalar = |value: Option<String>| {
        let is_quoted = source_text.starts_with(['\'', '"']);
        let text = value.unwrap_or_else(|| source_text.to_owned());
        let is_plain = !is_quoted && !text.contains('\n');
        NodeKind::Scalar(YamlScalar { text, is_plain })
    };
    let kind = match parsed.value {
        ParsedValue::Null => NodeKind::Null,
        ParsedValue::NumberOrBoolean => scalar(None),
        ParsedValue::Text(value) => scalar(Some(value)),
        ParsedValue::List(items) => {
            NodeKind::List(items.into_iter().map(|item| build_node(text, item)).collect())
        }
        ParsedValue::Map(entries) => {
            let entry = |(key, value): (Spanned<String>, Spanned<ParsedValue>)| {
                let key = YamlKey { position: to_position(key.referenced), text: key.value };
                (key, build_node(text, value))
            };
            NodeKind::Map(entries.into_iter().map(entry).collect())
        }
    };
    YamlNode { position: to_position(parsed.referenced), is_secret: false, kind }
}

/// The scalar as the file has it, so that `0x10` and `1.50` keep their text.
fn scalar_source(text: &str, location: Location) -> &str {
    let index = |n: Option<u64>| n.and_then(|n| usize::try_from(n).ok());
    let span = location.span();
    let (start, len) = (index(span.byte_offset()), index(span.byte_len()));
    let range = start.zip(len).map(|(start, len)| start..start.saturating_add(len));
    range.and_then(|range| text.get(range)).unwrap_or_default().trim_end()
}

/// A parsed value before its target type is known.
enum ParsedValue {
    Null,
    /// A number or a boolean. Its text comes from the file.
    NumberOrBoolean,
    Text(String),
    List(Vec<Spanned<Self>>),
    Map(Vec<(Spanned<String>, Spanned<Self>)>),
}

impl<'de> Deserialize<'de> for ParsedValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ParsedValueVisitor)
    }
}

struct ParsedValueVisitor;

impl<'de> Visitor<'de> for ParsedValueVisitor {
    type Value = ParsedValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }
    fn visit_unit<E>(self) -> Result<ParsedValue, E> {
        Ok(ParsedValue::Null)
    }
    fn visit_bool<E>(self, _: bool) -> Result<ParsedValue, E> {
        Ok(ParsedValue::NumberOrBoolean)
    }
    fn visit_i64<E>(self, _: i64) -> Result<ParsedValue, E> {
        Ok(ParsedValue::NumberOrBoolean)
    }
    fn visit_u64<E>(self, _: u64) -> Result<ParsedValue, E> {
        Ok(ParsedValue::NumberOrBoolean)
    }
    fn visit_i128<E>(self, _: i128) -> Result<ParsedValue, E> {
        Ok(ParsedValue::NumberOrBoolean)
    }
    fn visit_u128<E>(self, _: u128) -> Result<ParsedValue, E> {
        Ok(ParsedValue::NumberOrBoolean)
    }
    fn visit_f64<E>(self, _: f64) -> Result<ParsedValue, E> {
        Ok(ParsedValue::NumberOrBoolean)
    }
    fn visit_str<E>(self, text: &str) -> Result<ParsedValue, E> {
        Ok(ParsedValue::Text(text.to_owned()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<ParsedValue, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(ParsedValue::List(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ParsedValue, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(ParsedValue::Map(entries))
    }
}

#[cfg(test)]
mod tests;
