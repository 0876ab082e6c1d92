//! One value of a file with its position, and the parsers that make a typed value of it.
//!
//! A parser reports each error itself and goes on, so that one load finds all errors of a file.

use serde_json::Value;

use super::ConfigPosition;
use super::file_context::FileContext;
use super::section::{SchemaDefinitions, SchemaProperties, SectionKeys};
use super::yaml_tree::{NodeKind, YamlKey, YamlNode, YamlScalar, shorten_text};

/// A value of the file, and the context of that file.
#[derive(Clone, Copy)]
pub(crate) struct ConfigValue<'a> {
    pub(crate) file: &'a FileContext<'a>,
    pub(crate) node: &'a YamlNode,
}

/// Makes a typed value, and describes the values that it accepts.
pub(crate) trait ValueParser: Sized {
    type Output;

    /// Reads a value that is not null. Returns `None` for an invalid value, after it reported the error.
    fn parse_value(&self, value: ConfigValue<'_>) -> Option<Self::Output>;

    /// Describes the accepted values as JSON Schema.
    fn json_schema(&self, definitions: &mut SchemaDefinitions) -> Value;

    /// Makes the value of a null item or member. Most parsers omit it.
    fn parse_empty(&self) -> Option<Self::Output> {
        None
    }

    /// Reads the value of a key, where it has one. Returns the value as written too.
    fn read_key<'a>(
        &self,
        keys: &SectionKeys<'a>,
        key: &'static str,
    ) -> Option<(ConfigValue<'a>, Self::Output)> {
        let value = keys.find_value(key)?;
        Some((value, value.parse_with(self)?))
    }

    /// Adds the schema of a key to `properties`.
    fn describe_key(
        &self,
        key: &'static str,
        description: &str,
        properties: &mut SchemaProperties<'_>,
    ) {
        properties.add_property(key, description, self);
    }

    /// Adds a conversion that always makes a value; it may report errors.
    fn map<T, F>(self, convert: F) -> impl ValueParser<Output = T>
    where
        F: Fn(ConfigValue<'_>, Self::Output) -> T,
    {
        self.and_then(move |value, parsed| Some(convert(value, parsed)))
    }

    /// Adds a conversion of a string that borrows it.
    fn convert_text<T, F>(self, convert: F) -> impl ValueParser<Output = T>
    where
        Self: ValueParser<Output = String>,
        F: Fn(ConfigValue<'_>, &str) -> Option<T>,
    {
        self.and_then(move |value, text| convert(value, &text))
    }

    /// Adds a check or a conversion, which reports an error where it returns `None`.
    fn and_then<T, F>(self, convert: F) -> ConvertedParser<Self, F>
    where
        F: Fn(ConfigValue<'_>, Self::Output) -> Option<T>,
    {
        ConvertedParser { parser: self, convert }
    }
}

/// A parser, and a conversion of its result.
pub(crate) struct ConvertedParser<P, F> {
    parser: P,
    convert: F,
}

impl<P, F, T> ValueParser for ConvertedParser<P, F>
where
    P: ValueParser,
    F: Fn(ConfigValue<'_>, P::Output) -> Option<T>,
{
    type Output = T;

    fn parse_value(&self, value: ConfigValue<'_>) -> Option<T> {
        (self.convert)(value, self.parser.parse_value(value)?)
    }
    fn json_schema(&self, definitions: &mut SchemaDefinitions) -> Value {
        self.parser.json_schema(definitions)
    }
    fn read_key<'a>(
        &self,
        keys: &SectionKeys<'a>,
        key: &'static str,
    ) -> Option<(ConfigValue<'a>, T)> {
        let (value, parsed) = self.parser.read_key(keys, key)?;
        Some((value, (self.convert)(value, parsed)?))
    }
    fn describe_key(
        &self,
        key: &'static str,
        description: &str,
        properties: &mut SchemaProperties<'_>,
    ) {
        self.parser.describe_key(key, description, properties);
    }
}

impl<'a> ConfigValue<'a> {
    /// Makes the typed value. A value whose variables could not be expanded is reported already.
    pub(crate) fn parse_with<P: ValueParser>(self, parser: &P) -> Option<P::Output> {
        match self.node.kind {
            NodeKind::Null => parser.parse_empty(),
            NodeKind::Invalid => {
                self.file.errors.count_known_error();
                None
            }
            _ => parser.parse_value(self),
        }
    }

    /// Reports an error at this value.
    pub(crate) fn report(self, message: impl Into<String>, help: &str) {
        self.report_at(self.node.position, message, help);
    }

    /// Reports an error at this value without its line, which may hold a secret.
    pub(crate) fn report_redacted(self, message: impl Into<String>, help: &str) {
        self.file.errors.report_redacted(self.node.position, message, help);
    }

    /// Reports an error at a position within this value.
    pub(crate) fn report_at(
        self,
        position: ConfigPosition,
        message: impl Into<String>,
        help: &str,
    ) {
        if self.node.is_secret {
            self.file.errors.report_redacted(position, message, help);
        } else {
            self.file.errors.report(position, message, help);
        }
    }

    /// Reports a value of another type than the key accepts.
    pub(crate) fn report_mismatch(self, expected: &str, help: &str) {
        self.report(format!("expected {expected}, found {}", self.node.describe_kind()), help);
    }

    /// The value of a key of this mapping, unless it is null.
    pub(crate) fn find_member(self, key: &str) -> Option<Self> {
        let node = self.node.find_value(key).filter(|node| node.kind != NodeKind::Null)?;
        Some(Self { node, ..self })
    }

    /// Whether a key of this mapping has a value, valid or not.
    pub(crate) fn has_member(self, key: &str) -> bool {
        self.find_member(key).is_some()
    }

    /// The number of items of the list under a key.
    pub(crate) fn count_items(self, key: &str) -> usize {
        let list = self.find_member(key).map(|value| &value.node.kind);
        if let Some(NodeKind::List(items)) = list { items.len() } else { 0 }
    }

    /// The items of a list that are not null; none for another value.
    pub(crate) fn list_items(self) -> impl Iterator<Item = Self> {
        let items =
            if let NodeKind::List(items) = &self.node.kind { items.as_slice() } else { &[] };
        let items = items.iter().filter(|item| item.kind != NodeKind::Null);
        items.map(move |node| Self { node, ..self })
    }

    /// The text of a scalar; `None` for another value.
    pub(crate) fn as_text(self) -> Option<&'a str> {
        if let NodeKind::Scalar(scalar) = &self.node.kind { Some(&scalar.text) } else { None }
    }

    /// Returns those of `keys` that have a value in this mapping.
    pub(crate) fn present_keys<'k>(self, keys: &[&'k str]) -> Vec<&'k str> {
        keys.iter().copied().filter(|key| self.has_member(key)).collect()
    }

    /// The scalar. Reports a value of another type.
    pub(crate) fn require_scalar(self, expected: &str) -> Option<&'a YamlScalar> {
        if let NodeKind::Scalar(scalar) = &self.node.kind {
            return Some(scalar);
        }
        self.report_mismatch(expected, "");
        None
    }

    /// The items of a list. Reports a value of another type.
    pub(crate) fn require_items(self) -> Option<impl Iterator<Item = Self>> {
        if let NodeKind::List(nodes) = &self.node.kind {
            return Some(nodes.iter().map(move |node| Self { node, ..self }));
        }
        let help = "write a list: `[one, two]`, or each item on its own line after `- `";
        let is_scalar = matches!(self.node.kind, NodeKind::Scalar(_));
        self.report_mismatch("a list", if is_scalar { help } else { "" });
        None
    }

    /// The keys and values of a mapping. Reports a value of another type.
    pub(crate) fn require_entries(self) -> Option<impl Iterator<Item = (&'a YamlKey, Self)>> {
        let NodeKind::Map(entries) = &self.node.kind else {
            self.report_mismatch("a mapping of keys to values", "");
            return None;
        };
        Some(entries.iter().map(move |(key, node)| (key, Self { node, ..self })))
    }

    /// Reports a quoted string that would be valid without its quotes.
    pub(crate) fn report_quoted(self, expected: &str, scalar: &YamlScalar) {
        if self.node.is_secret {
            return self.report_mismatch(expected, "write it without quotes");
        }
        let text = shorten_text(&scalar.text);
        let message = format!("expected {expected}, found the string `\"{text}\"`");
        self.report(message, &format!("write it without quotes: `{text}`"));
    }
}
