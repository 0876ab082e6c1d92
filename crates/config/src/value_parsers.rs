//! Parsers of single values, lists and mappings, from which sections are declared.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tool::find_nearest_name;

use super::config_value::{ConfigValue, ValueParser};
use super::section::SchemaDefinitions;
use super::unit_parser;
use super::yaml_tree::{NodeKind, YamlKey, shorten_text};

/// Parses a scalar as its text.
pub(crate) struct TextParser {
    /// The types that the schema accepts.
    types: &'static [&'static str],
}

/// A string, as its text.
pub(crate) fn text() -> TextParser {
    TextParser { types: &["string"] }
}

/// A string, or a number or boolean as its text: `PORT: 8080`. A null is the empty string.
pub(crate) fn scalar_text() -> TextParser {
    TextParser { types: SCALAR_TYPES }
}

const SCALAR_TYPES: &[&str] = &["string", "number", "boolean"];
const SIZE_TYPES: &[&str] = &["string", "integer"];

impl ValueParser for TextParser {
    type Output = String;

    fn parse_value(&self, value: ConfigValue<'_>) -> Option<String> {
        Some(value.require_scalar("a string")?.text.clone())
    }
    fn json_schema(&self, _: &mut SchemaDefinitions) -> Value {
        match self.types {
            [single] => json!({ "type": single }),
            several => json!({ "type": several }),
        }
    }
    fn parse_empty(&self) -> Option<String> {
        (self.types == SCALAR_TYPES).then(String::new)
    }
}

/// Whether an OAuth scope may contain the byte (RFC 6749, section 3.3).
pub(crate) fn is_scope_byte(byte: u8) -> bool {
    matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e)
}

/// A path, relative to the file.
pub(crate) fn path() -> impl ValueParser<Output = PathBuf> {
    text().and_then(|value, text| Some(value.file.resolve_path(&text)))
}

/// A number of bytes such as `2MiB`, from 1 KiB to `max`.
pub(crate) fn byte_size(max: usize) -> impl ValueParser<Output = usize> {
    let size = TextParser { types: SIZE_TYPES };
    size.and_then(move |value, text| match unit_parser::parse_byte_size(&text) {
        Ok(bytes) if (1024..=max).contains(&bytes) => Some(bytes),
        Ok(_) => {
            let message = format!("`{}` is out of range", shorten_text(&text));
            value.report(message, &format!("use 1KiB to {}MiB", max >> 20));
            None
        }
        Err(help) => {
            value.report(format!("invalid size `{}`", shorten_text(&text)), &help);
            None
        }
    })
}

/// A number of bytes in a range, which `help` describes.
pub(crate) fn bytes(
    range: RangeInclusive<u64>,
    help: &'static str,
) -> impl ValueParser<Output = u64> {
    let size = TextParser { types: SIZE_TYPES };
    size.and_then(move |value, text| {
        let bytes = unit_parser::parse_byte_size(&text).map(|bytes| bytes as u64);
        let in_range =
            |bytes: u64| if range.contains(&bytes) { Ok(bytes) } else { Err(help.into()) };
        let report = |help: String| {
            value.report(format!("invalid size `{}`", shorten_text(&text)), &help);
        };
        bytes.and_then(in_range).map_err(report).ok()
    })
}

/// A duration such as `30s`, from 1 ms to `max`.
pub(crate) fn duration(max: Duration) -> impl ValueParser<Output = Duration> {
    text().and_then(move |value, text| {
        let report = |help: String| {
            value.report(format!("invalid duration `{}`", shorten_text(&text)), &help);
        };
        unit_parser::parse_duration(&text, max).map_err(report).ok()
    })
}

/// The timeout of a call, from 1 ms to 10 minutes.
pub(crate) fn call_timeout() -> impl ValueParser<Output = Duration> {
    text().and_then(move |value, text| {
        let report = |help: String| {
            value.report(format!("invalid call timeout `{}`", shorten_text(&text)), &help);
        };
        unit_parser::parse_call_timeout(&text).map_err(report).ok()
    })
}

/// Parses `true` and `false`.
pub(crate) struct BooleanParser;

/// A boolean: `true` or `false`.
pub(crate) fn boolean() -> BooleanParser {
    BooleanParser
}

impl ValueParser for BooleanParser {
    type Output = bool;

    fn parse_value(&self, value: ConfigValue<'_>) -> Option<bool> {
        let expected = "`true` or `false`";
        let scalar = value.require_scalar(expected)?;
        match (scalar.as_boolean(), scalar.text.as_str()) {
            (Some(boolean), _) => return Some(boolean),
            (_, "true" | "false") => value.report_quoted(expected, scalar),
            _ => value.report_mismatch(expected, ""),
        }
        None
    }
    fn json_schema(&self, _: &mut SchemaDefinitions) -> Value {
        allow_variable(&json!({ "type": "boolean" }))
    }
}

/// Parses a whole number in a range.
pub(crate) struct IntegerParser {
    range: RangeInclusive<u64>,
    schema: fn() -> Value,
}

/// A whole number in a range.
pub(crate) fn integer(range: RangeInclusive<u64>) -> IntegerParser {
    IntegerParser {
        range,
        schema: || json!({ "type": "integer", "format": "uint64", "minimum": 0 }),
    }
}

/// A number of things, from 1 to `max`.
pub(crate) fn count(max: u64) -> impl ValueParser<Output = usize> {
    integer(1..=max).and_then(|_, count| usize::try_from(count).ok())
}

/// A TCP port: 0 to 65535.
pub(crate) fn port() -> impl ValueParser<Output = u16> {
    let schema =
        || json!({ "type": "integer", "format": "uint16", "minimum": 0, "maximum": 65_535 });
    IntegerParser { range: 0..=65_535, schema }.and_then(|_, port| u16::try_from(port).ok())
}

impl ValueParser for IntegerParser {
    type Output = u64;

    fn parse_value(&self, value: ConfigValue<'_>) -> Option<u64> {
        let expected = "a whole number";
        let scalar = value.require_scalar(expected)?;
        match scalar.as_integer() {
            Some(_) if !scalar.is_plain => value.report_quoted(expected, scalar),
            Some(number) if self.range.contains(&number) => return Some(number),
            Some(number) => {
                let (min, max) = (self.range.start(), self.range.end());
                let help = format!("use a number from {min} to {max}");
                value.report(format!("`{number}` is out of range"), &help);
            }
            None => value.report_mismatch(expected, ""),
        }
        None
    }
    fn json_schema(&self, _: &mut SchemaDefinitions) -> Value {
        allow_variable(&(self.schema)())
    }
}

/// Extends a schema by a reference to a variable, which may hold a number or a boolean.
fn allow_variable(schema: &Value) -> Value {
    json!({ "anyOf": [schema, { "type": "string", "pattern": "^\\$\\{.*\\}$" }] })
}

/// Parses any value as JSON.
pub(crate) struct JsonParser;

/// Any value, as JSON.
pub(crate) fn json_value() -> JsonParser {
    JsonParser
}

impl ValueParser for JsonParser {
    type Output = Value;

    fn parse_value(&self, value: ConfigValue<'_>) -> Option<Value> {
        Some(match &value.node.kind {
            NodeKind::Null | NodeKind::Invalid => return value.parse_with(self),
            NodeKind::Scalar(scalar) => scalar.to_json(),
            NodeKind::List(_) => {
                let items = value.require_items()?;
                items.map(|item| item.parse_with(self)).collect::<Option<_>>()?
            }
            NodeKind::Map(_) => {
                let member = |(key, value): (&YamlKey, ConfigValue<'_>)| {
                    Some((key.text.clone(), value.parse_with(self)?))
                };
                Value::Object(value.require_entries()?.map(member).collect::<Option<_>>()?)
            }
        })
    }
    fn json_schema(&self, _: &mut SchemaDefinitions) -> Value {
        json!({})
    }
    fn parse_empty(&self) -> Option<Value> {
        Some(Value::Null)
    }
}

/// A parser whose schema is replaced.
pub(crate) struct SchemaOverride<P> {
    schema: fn() -> Value,
    parser: P,
}

/// A parser that is described by another schema than its own.
pub(crate) fn override_schema<P: ValueParser>(
    schema: fn() -> Value,
    parser: P,
) -> SchemaOverride<P> {
    SchemaOverride { schema, parser }
}

impl<P: ValueParser> ValueParser for SchemaOverride<P> {
    type Output = P::Output;

    fn parse_value(&self, value: ConfigValue<'_>) -> Option<P::Output> {
        self.parser.parse_value(value)
    }
    fn json_schema(&self, _: &mut SchemaDefinitions) -> Value {
        (self.schema)()
    }
}

/// Parses a list of items of one kind. Null items are omitted.
pub(crate) struct ListParser<P> {
    item: P,
    max_items: usize,
}

/// A list of any length.
pub(crate) fn list<P: ValueParser>(item: P) -> ListParser<P> {
    bounded_list(usize::MAX, item)
}

/// A list whose items after the first `max_items` are ignored.
pub(crate) fn bounded_list<P: ValueParser>(max_items: usize, item: P) -> ListParser<P> {
    ListParser { item, max_items }
}

impl<P: ValueParser> ValueParser for ListParser<P> {
    type Output = Vec<P::Output>;

    fn parse_value(&self, value: ConfigValue<'_>) -> Option<Vec<P::Output>> {
        let items = value.require_items()?.take(self.max_items);
        Some(items.filter_map(|item| item.parse_with(&self.item)).collect())
    }
    fn json_schema(&self, definitions: &mut SchemaDefinitions) -> Value {
        json!({ "type": "array", "items": self.item.json_schema(definitions) })
    }
}

/// Converts the items of a list to another collection, for [`ValueParser::map`].
pub(crate) fn collect_items<C: FromIterator<T>, T>(_: ConfigValue<'_>, items: Vec<T>) -> C {
    items.into_iter().collect()
}

/// Parses a mapping whose keys are names. Null members are omitted.
pub(crate) struct MappingParser<P>(P);

/// A mapping from names to values.
pub(crate) fn mapping<P: ValueParser>(member: P) -> MappingParser<P> {
    MappingParser(member)
}

impl<P: ValueParser> ValueParser for MappingParser<P> {
    type Output = BTreeMap<String, P::Output>;

    fn parse_value(&self, value: ConfigValue<'_>) -> Option<BTreeMap<String, P::Output>> {
        let entries = value.require_entries()?;
        let member = |(key, value): (&YamlKey, ConfigValue<'_>)| {
            Some((key.text.clone(), value.parse_with(&self.0)?))
        };
        Some(entries.filter_map(member).collect())
    }
    fn json_schema(&self, definitions: &mut SchemaDefinitions) -> Value {
        json!({ "type": "object", "additionalProperties": self.0.json_schema(definitions) })
    }
}

/// Parses one of several keywords, each with its description and its value.
pub(crate) struct KeywordParser<T: 'static> {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) keywords: &'static [(&'static str, &'static str, T)],
}

impl<T: Clone> ValueParser for KeywordParser<T> {
    type Output = T;

    fn parse_value(&self, value: ConfigValue<'_>) -> Option<T> {
        let words: Vec<_> = self.keywords.iter().map(|(word, ..)| *word).collect();
        let expected = format!("one of {}", words.join(", "));
        let text = &value.require_scalar(&expected)?.text;
        let keyword = self.keywords.iter().find(|(word, ..)| word == text);
        if keyword.is_none() {
            let nearest = find_nearest_name(text, words.iter().copied());
            let help = nearest.map(|name| format!("did you mean `{name}`?")).unwrap_or_default();
            value.report_mismatch(&expected, &help);
        }
        keyword.map(|(.., value)| value.clone())
    }
    fn json_schema(&self, definitions: &mut SchemaDefinitions) -> Value {
        let keyword = |(word, description, _): &(&str, &str, T)| json!({ "description": description.trim(), "type": "string", "const": word });
        let keywords: Vec<_> = self.keywords.iter().map(keyword).collect();
        let description = self.description.trim();
        definitions
            .reference_to(self.name, |_| json!({ "description": description, "oneOf": keywords }))
    }
}

/// Declares keywords: `/// DESCRIPTION` and `fn NAME as "SCHEMA NAME" -> TYPE { /// DESCRIPTION "KEYWORD" = VALUE, … }`.
macro_rules! keywords {
    ($(#[doc = $about:literal])* $vis:vis fn $parser:ident as $name:literal -> $type:ty {
        $($(#[doc = $doc:literal])* $word:literal = $value:expr,)*
    }) => {
        $(#[doc = $about])*
        $vis fn $parser() -> $crate::value_parsers::KeywordParser<$type> {
            $crate::value_parsers::KeywordParser {
                name: $name,
                description: concat!($($about),*),
                keywords: &[$(($word, concat!($($doc),*), $value)),*],
            }
        }
    };
}

pub(crate) use keywords;
