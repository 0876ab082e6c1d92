//! One value of a file with its place, and the parsers that make a typed value of it.
//!
//! A parser reports each fault itself and goes on, so that all faults of a file are found at once.

use serde_json::Value;

use super::Place;
use super::context::FileContext;
use super::node::{Key, Kind, Node, Scalar, shorten};
use super::section::{Definitions, Keys, Properties};

/// A value as it is written.
#[derive(Clone, Copy)]
pub(crate) struct ConfigValue<'a> {
    pub(crate) file: &'a FileContext<'a>,
    pub(crate) node: &'a Node,
}

/// Makes a typed value, and describes what may be written.
pub(crate) trait ValueParser: Sized {
    type Output;

    /// Reads a value that holds something. `None` where it cannot be used, which is reported then.
    fn parse(&self, value: ConfigValue<'_>) -> Option<Self::Output>;

    /// The JSON schema of what may be written.
    fn schema(&self, definitions: &mut Definitions) -> Value;

    /// The value of an item or a member that holds nothing; most leave it out.
    fn parse_empty(&self) -> Option<Self::Output> {
        None
    }

    /// Reads the value of a key, where it has one. With the value that was read.
    fn read_key<'a>(
        &self,
        keys: &Keys<'a>,
        key: &'static str,
    ) -> Option<(ConfigValue<'a>, Self::Output)> {
        let value = keys.value(key)?;
        Some((value, value.parse(self)?))
    }

    /// Describes a key.
    fn describe_key(&self, key: &'static str, description: &str, properties: &mut Properties<'_>) {
        properties.add(key, description, self);
    }

    /// The same with a conversion behind it that cannot fail, or reports and goes on.
    fn map<T, F>(self, convert: F) -> impl ValueParser<Output = T>
    where
        F: Fn(ConfigValue<'_>, Self::Output) -> T,
    {
        self.then(move |value, read| Some(convert(value, read)))
    }

    /// The same of a text that the conversion only looks at.
    fn convert_text<T, F>(self, convert: F) -> impl ValueParser<Output = T>
    where
        Self: ValueParser<Output = String>,
        F: Fn(ConfigValue<'_>, &str) -> Option<T>,
    {
        self.then(move |value, text| convert(value, &text))
    }

    /// The same with a check or a conversion behind it, which reports where it returns none.
    fn then<T, F>(self, convert: F) -> Then<Self, F>
    where
        F: Fn(ConfigValue<'_>, Self::Output) -> Option<T>,
    {
        Then { parser: self, convert }
    }
}

/// A parser with a conversion behind it.
pub(crate) struct Then<P, F> {
    parser: P,
    convert: F,
}

impl<P, F, T> ValueParser for Then<P, F>
where
    P: ValueParser,
    F: Fn(ConfigValue<'_>, P::Output) -> Option<T>,
{
    type Output = T;

    fn parse(&self, value: ConfigValue<'_>) -> Option<T> {
        (self.convert)(value, self.parser.parse(value)?)
    }
    fn schema(&self, definitions: &mut Definitions) -> Value {
        self.parser.schema(definitions)
    }
    fn read_key<'a>(&self, keys: &Keys<'a>, key: &'static str) -> Option<(ConfigValue<'a>, T)> {
        let (value, read) = self.parser.read_key(keys, key)?;
        Some((value, (self.convert)(value, read)?))
    }
    fn describe_key(&self, key: &'static str, description: &str, properties: &mut Properties<'_>) {
        self.parser.describe_key(key, description, properties);
    }
}

impl<'a> ConfigValue<'a> {
    /// The typed value. A value whose variables could not be filled in was reported already.
    pub(crate) fn parse<P: ValueParser>(self, parser: &P) -> Option<P::Output> {
        match self.node.kind {
            Kind::Null => parser.parse_empty(),
            Kind::Broken => {
                self.file.sink.count_reported();
                None
            }
            _ => parser.parse(self),
        }
    }

    /// Reports a fault at this value.
    pub(crate) fn fault(self, message: impl Into<String>, fix: &str) {
        self.fault_at(self.node.place, message, fix);
    }

    /// The same, where the line must not be shown.
    pub(crate) fn fault_hidden(self, message: impl Into<String>, fix: &str) {
        self.file.sink.tell_hidden(self.node.place, message, fix);
    }

    /// Reports a fault within this value.
    pub(crate) fn fault_at(self, place: Place, message: impl Into<String>, fix: &str) {
        if self.node.secret {
            self.file.sink.tell_hidden(place, message, fix);
        } else {
            self.file.sink.tell(place, message, fix);
        }
    }

    /// Reports that something else is expected.
    pub(crate) fn expected(self, expected: &str, fix: &str) {
        self.fault(format!("expected {expected}, found {}", self.node.found()), fix);
    }

    /// The value of a key of this mapping that holds something.
    pub(crate) fn member(self, key: &str) -> Option<Self> {
        let node = self.node.get(key).filter(|node| node.kind != Kind::Null)?;
        Some(Self { node, ..self })
    }

    /// Whether a key of this mapping holds something, be it faulty.
    pub(crate) fn has(self, key: &str) -> bool {
        self.member(key).is_some()
    }

    /// How many items the list under a key has.
    pub(crate) fn count(self, key: &str) -> usize {
        let list = self.member(key).map(|value| &value.node.kind);
        if let Some(Kind::List(items)) = list { items.len() } else { 0 }
    }

    /// The items of a list that hold something, without a fault where it is none.
    pub(crate) fn list_items(self) -> impl Iterator<Item = Self> {
        let items = if let Kind::List(items) = &self.node.kind { items.as_slice() } else { &[] };
        let items = items.iter().filter(|item| item.kind != Kind::Null);
        items.map(move |node| Self { node, ..self })
    }

    /// Its text, without a fault where it has none.
    pub(crate) fn text(self) -> Option<&'a str> {
        if let Kind::Scalar(scalar) = &self.node.kind { Some(&scalar.text) } else { None }
    }

    /// Those of these keys that hold something.
    pub(crate) fn which_of<'k>(self, keys: &[&'k str]) -> Vec<&'k str> {
        keys.iter().copied().filter(|key| self.has(key)).collect()
    }

    /// The text of a scalar.
    pub(crate) fn scalar(self, expected: &str) -> Option<&'a Scalar> {
        if let Kind::Scalar(scalar) = &self.node.kind {
            return Some(scalar);
        }
        self.expected(expected, "");
        None
    }

    /// The items of a list.
    pub(crate) fn items(self) -> Option<impl Iterator<Item = Self>> {
        if let Kind::List(nodes) = &self.node.kind {
            return Some(nodes.iter().map(move |node| Self { node, ..self }));
        }
        let fix = "write a list: `[one, two]`, or each item on a line of its own after `- `";
        let is_scalar = matches!(self.node.kind, Kind::Scalar(_));
        self.expected("a list", if is_scalar { fix } else { "" });
        None
    }

    /// The keys and values of a mapping.
    pub(crate) fn entries(self) -> Option<impl Iterator<Item = (&'a Key, Self)>> {
        let Kind::Map(entries) = &self.node.kind else {
            self.expected("a mapping of keys to values", "");
            return None;
        };
        Some(entries.iter().map(move |(key, node)| (key, Self { node, ..self })))
    }

    /// Reports a text that would be what is expected without its quotes.
    pub(crate) fn quoted(self, expected: &str, scalar: &Scalar) {
        if self.node.secret {
            return self.expected(expected, "write it without quotes");
        }
        let text = shorten(&scalar.text);
        let message = format!("expected {expected}, found the text `\"{text}\"`");
        self.fault(message, &format!("write it without quotes: `{text}`"));
    }
}
