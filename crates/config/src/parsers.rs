//! Parsers of single values, lists and mappings, of which the lines of sections are made.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tool::nearest_name;

use super::node::{Key, Kind, shorten};
use super::section::Definitions;
use super::units;
use super::value::{ConfigValue, ValueParser};

/// The text of a scalar.
pub(crate) struct Text {
    /// The types that the schema allows.
    schema: &'static [&'static str],
}

/// A text.
pub(crate) fn text() -> Text {
    Text { schema: &["string"] }
}

/// A text in which a number or a truth value is taken as it is typed: `PORT: 8080`. What holds nothing is the empty
/// text.
pub(crate) fn plain_text() -> Text {
    Text { schema: PLAIN }
}

const PLAIN: &[&str] = &["string", "number", "boolean"];

impl ValueParser for Text {
    type Output = String;

    fn parse(&self, value: ConfigValue<'_>) -> Option<String> {
        Some(value.scalar("a text")?.text.clone())
    }
    fn schema(&self, _: &mut Definitions) -> Value {
        match self.schema {
            [one] => json!({ "type": one }),
            several => json!({ "type": several }),
        }
    }
    fn parse_empty(&self) -> Option<String> {
        (self.schema == PLAIN).then(String::new)
    }
}

/// A path, relative to the file.
pub(crate) fn path() -> impl ValueParser<Output = PathBuf> {
    text().then(|value, text| Some(value.file.path(&text)))
}

/// The bytes of a text such as `2MiB`, from 1 KiB to `most`.
pub(crate) fn size(most: usize) -> impl ValueParser<Output = usize> {
    let size = Text { schema: &["string", "integer"] };
    size.then(move |value, text| match units::size(&text) {
        Ok(bytes) if (1024..=most).contains(&bytes) => Some(bytes),
        Ok(_) => {
            let message = format!("`{}` is out of range", shorten(&text));
            value.fault(message, &format!("use 1KiB to {}MiB", most >> 20));
            None
        }
        Err(advice) => {
            value.fault(format!("`{}` is no size", shorten(&text)), &advice);
            None
        }
    })
}

/// The same in another range, which `advice` says.
pub(crate) fn bytes(
    range: RangeInclusive<u64>,
    advice: &'static str,
) -> impl ValueParser<Output = u64> {
    let size = Text { schema: &["string", "integer"] };
    size.then(move |value, text| {
        let bytes = units::size(&text).map(|bytes| bytes as u64);
        let fits = |bytes: u64| if range.contains(&bytes) { Ok(bytes) } else { Err(advice.into()) };
        let fault = |advice: String| {
            value.fault(format!("`{}` is no such size", shorten(&text)), &advice);
        };
        bytes.and_then(fits).map_err(fault).ok()
    })
}

/// A time such as `30s`, from 1 ms to `longest`.
pub(crate) fn time(longest: Duration) -> impl ValueParser<Output = Duration> {
    text().then(move |value, text| {
        let fault = |advice: String| {
            value.fault(format!("`{}` is no such time", shorten(&text)), &advice);
        };
        units::time(&text, longest).map_err(fault).ok()
    })
}

/// A time for one call, or what it is not, such as `is no such time`.
pub(crate) fn duration(fault: &'static str) -> impl ValueParser<Output = Duration> {
    text().then(move |value, text| {
        let report = |advice: String| value.fault(format!("`{}` {fault}", shorten(&text)), &advice);
        units::duration(&text).map_err(report).ok()
    })
}

/// A truth value.
pub(crate) struct Truth;

/// `true` or `false`.
pub(crate) fn truth() -> Truth {
    Truth
}

impl ValueParser for Truth {
    type Output = bool;

    fn parse(&self, value: ConfigValue<'_>) -> Option<bool> {
        let expected = "`true` or `false`";
        let scalar = value.scalar(expected)?;
        match (scalar.truth(), scalar.text.as_str()) {
            (Some(truth), _) => return Some(truth),
            (_, "true" | "false") => value.quoted(expected, scalar),
            _ => value.expected(expected, ""),
        }
        None
    }
    fn schema(&self, _: &mut Definitions) -> Value {
        or_variable(&json!({ "type": "boolean" }))
    }
}

/// A whole number.
pub(crate) struct Number {
    range: RangeInclusive<u64>,
    schema: fn() -> Value,
}

/// A whole number in a range.
pub(crate) fn number(range: RangeInclusive<u64>) -> Number {
    Number { range, schema: || json!({ "type": "integer", "format": "uint64", "minimum": 0 }) }
}

/// How many there may be: from 1 to `most`.
pub(crate) fn count(most: u64) -> impl ValueParser<Output = usize> {
    number(1..=most).then(|_, count| usize::try_from(count).ok())
}

/// A port of TCP.
pub(crate) fn port() -> impl ValueParser<Output = u16> {
    let schema =
        || json!({ "type": "integer", "format": "uint16", "minimum": 0, "maximum": 65_535 });
    Number { range: 0..=65_535, schema }.then(|_, port| u16::try_from(port).ok())
}

impl ValueParser for Number {
    type Output = u64;

    fn parse(&self, value: ConfigValue<'_>) -> Option<u64> {
        let expected = "a whole number";
        let scalar = value.scalar(expected)?;
        match scalar.whole() {
            Some(_) if !scalar.plain => value.quoted(expected, scalar),
            Some(number) if self.range.contains(&number) => return Some(number),
            Some(_) => {
                let (least, most) = (self.range.start(), self.range.end());
                value.fault(format!("use a number from {least} to {most}"), "");
            }
            None => value.expected(expected, ""),
        }
        None
    }
    fn schema(&self, _: &mut Definitions) -> Value {
        or_variable(&(self.schema)())
    }
}

/// A number or a truth value may also come from a variable.
fn or_variable(schema: &Value) -> Value {
    json!({ "anyOf": [schema, { "type": "string", "pattern": "^\\$\\{.*\\}$" }] })
}

/// Any value.
pub(crate) struct Any;

/// Any value, as JSON.
pub(crate) fn any() -> Any {
    Any
}

impl ValueParser for Any {
    type Output = Value;

    fn parse(&self, value: ConfigValue<'_>) -> Option<Value> {
        Some(match &value.node.kind {
            Kind::Null | Kind::Broken => return value.parse(self),
            Kind::Scalar(scalar) => scalar.value(),
            Kind::List(_) => value.items()?.map(|item| item.parse(self)).collect::<Option<_>>()?,
            Kind::Map(_) => {
                let member = |(key, value): (&Key, ConfigValue<'_>)| {
                    Some((key.text.clone(), value.parse(self)?))
                };
                Value::Object(value.entries()?.map(member).collect::<Option<_>>()?)
            }
        })
    }
    fn schema(&self, _: &mut Definitions) -> Value {
        json!({})
    }
    fn parse_empty(&self) -> Option<Value> {
        Some(Value::Null)
    }
}

/// A parser whose schema is another than its own.
pub(crate) struct WithSchema<P> {
    schema: fn() -> Value,
    parser: P,
}

/// The same parser, described by this schema.
pub(crate) fn with_schema<P: ValueParser>(schema: fn() -> Value, parser: P) -> WithSchema<P> {
    WithSchema { schema, parser }
}

impl<P: ValueParser> ValueParser for WithSchema<P> {
    type Output = P::Output;

    fn parse(&self, value: ConfigValue<'_>) -> Option<P::Output> {
        self.parser.parse(value)
    }
    fn schema(&self, _: &mut Definitions) -> Value {
        (self.schema)()
    }
}

/// A list of items of one kind. Items that hold nothing are left out.
pub(crate) struct List<P> {
    item: P,
    most: usize,
}

/// A list.
pub(crate) fn list<P: ValueParser>(item: P) -> List<P> {
    list_of(usize::MAX, item)
}

/// A list of which the first `most` items count.
pub(crate) fn list_of<P: ValueParser>(most: usize, item: P) -> List<P> {
    List { item, most }
}

impl<P: ValueParser> ValueParser for List<P> {
    type Output = Vec<P::Output>;

    fn parse(&self, value: ConfigValue<'_>) -> Option<Vec<P::Output>> {
        let items = value.items()?.take(self.most);
        Some(items.filter_map(|item| item.parse(&self.item)).collect())
    }
    fn schema(&self, definitions: &mut Definitions) -> Value {
        json!({ "type": "array", "items": self.item.schema(definitions) })
    }
}

/// For [`ValueParser::then`]: the items as another collection.
pub(crate) fn collect<C: FromIterator<T>, T>(_: ConfigValue<'_>, items: Vec<T>) -> C {
    items.into_iter().collect()
}

/// A mapping from names of the operator's. Names that hold nothing are left out.
pub(crate) struct Mapping<P>(P);

/// A mapping from names.
pub(crate) fn map<P: ValueParser>(member: P) -> Mapping<P> {
    Mapping(member)
}

impl<P: ValueParser> ValueParser for Mapping<P> {
    type Output = BTreeMap<String, P::Output>;

    fn parse(&self, value: ConfigValue<'_>) -> Option<BTreeMap<String, P::Output>> {
        let entries = value.entries()?;
        let member =
            |(key, value): (&Key, ConfigValue<'_>)| Some((key.text.clone(), value.parse(&self.0)?));
        Some(entries.filter_map(member).collect())
    }
    fn schema(&self, definitions: &mut Definitions) -> Value {
        json!({ "type": "object", "additionalProperties": self.0.schema(definitions) })
    }
}

/// One of some words, each with its description and its value.
pub(crate) struct Words<T: 'static> {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) all: &'static [(&'static str, &'static str, T)],
}

impl<T: Clone> ValueParser for Words<T> {
    type Output = T;

    fn parse(&self, value: ConfigValue<'_>) -> Option<T> {
        let words: Vec<_> = self.all.iter().map(|(word, ..)| *word).collect();
        let expected = format!("one of {}", words.join(", "));
        let text = &value.scalar(&expected)?.text;
        let found = self.all.iter().find(|(word, ..)| word == text);
        if found.is_none() {
            let near = nearest_name(text, words.iter().copied());
            let fix = near.map(|near| format!("did you mean `{near}`?")).unwrap_or_default();
            value.expected(&expected, &fix);
        }
        found.map(|(.., value)| value.clone())
    }
    fn schema(&self, definitions: &mut Definitions) -> Value {
        let word = |(word, description, _): &(&str, &str, T)| json!({ "description": description.trim(), "type": "string", "const": word });
        let words: Vec<_> = self.all.iter().map(word).collect();
        let description = self.description.trim();
        definitions.refer(self.name, |_| json!({ "description": description, "oneOf": words }))
    }
}

/// Declares words: `/// DESCRIPTION` and `fn NAME as "SCHEMA NAME" -> TYPE { /// DESCRIPTION "WORD" = VALUE, … }`.
macro_rules! words {
    ($(#[doc = $about:literal])* $vis:vis fn $parser:ident as $name:literal -> $type:ty {
        $($(#[doc = $doc:literal])* $word:literal = $value:expr,)*
    }) => {
        $(#[doc = $about])*
        $vis fn $parser() -> $crate::parsers::Words<$type> {
            $crate::parsers::Words {
                name: $name,
                description: concat!($($about),*),
                all: &[$(($word, concat!($($doc),*), $value)),*],
            }
        }
    };
}

pub(crate) use words;
