//! From the tree to the types, by serde, gathering every fault on the way instead of the first.
//!
//! Unknown keys are faults with the nearest known key. A [`super::field::Field`] that cannot be read
//! is a fault too, and reading goes on beside it.

use std::cell::RefCell;
use std::fmt;

use serde::de::value::{StrDeserializer, U64Deserializer};
use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer as _, Unexpected, Visitor};

use super::Place;
use super::node::{Key, Kind, Node, Scalar, shorten};
use super::sink::Sink;
use tool::nearest_name;

/// A fault without its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bad {
    pub(crate) place: Option<Place>,
    pub(crate) message: String,
    pub(crate) fix: Option<String>,
    /// Whether the line may not be shown.
    pub(crate) secret: bool,
    /// Whether it is told already.
    told: bool,
}

impl Bad {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { place: None, message: message.into(), fix: None, secret: false, told: false }
    }

    pub(crate) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// Gives it the place of `node`, where it has none from further inside.
    pub(crate) fn at(mut self, node: &Node) -> Self {
        self.secret |= node.secret;
        self.place.get_or_insert(node.place);
        self
    }
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
impl std::error::Error for Bad {}

impl de::Error for Bad {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message.to_string())
    }
    fn invalid_type(found: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        let found = match found {
            Unexpected::Str(text) => format!("`{}`", shorten(text)),
            Unexpected::Map => "a mapping".to_owned(),
            Unexpected::Seq => "a list".to_owned(),
            Unexpected::Unit => "nothing".to_owned(),
            other => other.to_string(),
        };
        Self::new(format!("expected {expected}, found {found}"))
    }
}

/// The name under which a [`super::field::Field`] asks for its place and for leniency.
pub(crate) const FIELD: &str = "$field";

/// Reads one node; what is wrong beside the value goes to `faults`.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    node: &'a Node,
    faults: &'a RefCell<Vec<Bad>>,
    /// Whether keys that are not known are faults.
    strict: bool,
}

/// Reads a tree as `T` and tells what is wrong with it. With `strict`, unknown keys are wrong.
pub(crate) fn read<T: de::DeserializeOwned>(
    node: &Node,
    strict: bool,
    sink: &Sink<'_>,
) -> Option<T> {
    let faults = RefCell::new(Vec::new());
    let value = T::deserialize(Reader { node, faults: &faults, strict });
    let value = value.map_err(|bad| faults.borrow_mut().push(bad.at(node))).ok();
    // What is told already counts as a fault of all around it, but is not told twice.
    let untold = faults.into_inner().into_iter().filter(|bad| !bad.told);
    untold.for_each(|bad| sink.tell_bad(bad));
    value
}

impl<'a> Reader<'a> {
    fn on(self, node: &'a Node) -> Self {
        Self { node, ..self }
    }

    fn scalar(self, expected: &str) -> Result<&'a Scalar, Bad> {
        match &self.node.kind {
            Kind::Scalar(scalar) => Ok(scalar),
            _ => Err(self.other_than(expected)),
        }
    }

    fn other_than(self, expected: &str) -> Bad {
        let told = matches!(self.node.kind, Kind::Broken);
        let message = format!("expected {expected}, found {}", self.node.found());
        Bad { told, ..Bad::new(message).at(self.node) }
    }

    /// A text that would be what is expected without its quotes.
    fn quoted(self, expected: &str, scalar: &Scalar) -> Bad {
        if self.node.secret {
            return self.other_than(expected).fix("write it without quotes");
        }
        let text = shorten(&scalar.text);
        let message = format!("expected {expected}, found the text `\"{text}\"`");
        Bad::new(message).fix(format!("write it without quotes: `{text}`")).at(self.node)
    }

    fn number(self) -> Result<u64, Bad> {
        let expected = "a whole number";
        let scalar = self.scalar(expected)?;
        let text = scalar.text.replace('_', "");
        let parsed = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        match parsed {
            Ok(number) if scalar.plain => Ok(number),
            Ok(_) => Err(self.quoted(expected, scalar)),
            Err(_) => Err(self.other_than(expected)),
        }
    }

    fn truth(self) -> Result<bool, Bad> {
        let expected = "`true` or `false`";
        let scalar = self.scalar(expected)?;
        match scalar.text.as_str() {
            "true" if scalar.plain => Ok(true),
            "false" if scalar.plain => Ok(false),
            "true" | "false" => Err(self.quoted(expected, scalar)),
            _ => Err(self.other_than(expected)),
        }
    }

    fn list(self) -> Result<&'a [Node], Bad> {
        match &self.node.kind {
            Kind::List(nodes) => Ok(nodes),
            Kind::Null => Ok(&[]),
            Kind::Scalar(_) => {
                let fix =
                    "write a list: `[one, two]`, or each item on a line of its own after `- `";
                Err(self.other_than("a list").fix(fix))
            }
            Kind::Broken | Kind::Map(_) => Err(self.other_than("a list")),
        }
    }

    fn map(self) -> Result<&'a [(Key, Node)], Bad> {
        match &self.node.kind {
            Kind::Map(entries) => Ok(entries),
            Kind::Null => Ok(&[]),
            _ => Err(self.other_than("a mapping of keys to values")),
        }
    }

    fn unknown_key(self, key: &Key, known: &'static [&'static str]) {
        if !self.strict {
            return;
        }
        let message = format!("unknown key `{}`", shorten(&key.text));
        let near = || match nearest_name(&key.text, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known are {}", known.join(", ")),
        };
        let mut bad = Bad::new(message).fix(elsewhere(&key.text, known).unwrap_or_else(near));
        bad.place = Some(key.place);
        bad.secret = self.node.secret;
        self.faults.borrow_mut().push(bad);
    }
}

/// What belongs to a source and stands beside them: the files of tools and of other programs begin so.
fn elsewhere(key: &str, known: &[&str]) -> Option<String> {
    let source = match key {
        "tools" | "module" | "mcp" => format!("{{ name: NAME, {key}: … }}"),
        "mcp_servers" | "mcpServers" => "{ mcp_servers: FILE }".to_owned(),
        _ => return None,
    };
    known.contains(&"sources").then(|| format!("that is for a source: `sources: [{source}]`"))
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = Bad;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Bad> {
        let read = match &self.node.kind {
            Kind::Null => visitor.visit_unit(),
            Kind::Broken => return Err(self.other_than("a value")),
            Kind::List(nodes) => visitor.visit_seq(Items { reader: self, nodes: nodes.iter() }),
            Kind::Map(entries) => visitor.visit_map(Entries::of(self, entries, None)),
            Kind::Scalar(scalar) => match (self.truth(), self.number(), scalar.decimal()) {
                (Ok(truth), ..) => visitor.visit_bool(truth),
                (_, Ok(number), _) => visitor.visit_u64(number),
                (.., Some((Some(number), _))) => visitor.visit_i64(number),
                (.., Some((_, number))) => visitor.visit_f64(number),
                _ => return self.deserialize_str(visitor),
            },
        };
        read.map_err(|bad| bad.at(self.node))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Bad> {
        visitor.visit_bool(self.truth()?)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Bad> {
        visitor.visit_u64(self.number()?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Bad> {
        let text = &self.scalar("a text")?.text;
        visitor.visit_borrowed_str(text).map_err(|bad: Bad| bad.at(self.node))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Bad> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Bad> {
        match self.node.kind {
            Kind::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Bad> {
        visitor.visit_seq(Items { reader: self, nodes: self.list()?.iter() })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Bad> {
        visitor.visit_map(Entries::of(self, self.map()?, None))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Bad> {
        let entries = Entries::of(self, self.map()?, Some(fields));
        visitor.visit_map(entries).map_err(|bad| bad.at(self.node))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Bad> {
        let expected = || format!("one of {}", words.join(", "));
        let text = &self.scalar(&expected())?.text;
        if !words.contains(&text.as_str()) {
            let bad = self.other_than(&expected());
            return Err(match nearest_name(text, words.iter().copied()) {
                Some(near) => bad.fix(format!("did you mean `{near}`?")),
                None => bad,
            });
        }
        let word: StrDeserializer<'_, Bad> = text.as_str().into_deserializer();
        visitor.visit_enum(word)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Bad> {
        if name == FIELD {
            let faults_before = self.faults.borrow().len();
            return visitor.visit_seq(FieldParts { reader: self, step: 0, faults_before });
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Bad> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u128 f32 f64 char bytes byte_buf unit unit_struct tuple
        tuple_struct identifier
    }
}

/// A field's line, its column, its value where that can be read, and whether all within it could.
struct FieldParts<'a> {
    reader: Reader<'a>,
    step: u8,
    faults_before: usize,
}

impl<'de> de::SeqAccess<'de> for FieldParts<'de> {
    type Error = Bad;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Bad> {
        self.step += 1;
        let Place { line, column } = self.reader.node.place;
        let number = |n: usize| -> U64Deserializer<Bad> { (n as u64).into_deserializer() };
        match self.step {
            1 => seed.deserialize(number(line)).map(Some),
            2 => seed.deserialize(number(column)).map(Some),
            3 => Ok(seed.deserialize(self.reader).map_or_else(
                |bad: Bad| {
                    self.reader.faults.borrow_mut().push(bad.at(self.reader.node));
                    None
                },
                Some,
            )),
            4 => {
                let sound = self.reader.faults.borrow().len() == self.faults_before;
                seed.deserialize(de::value::BoolDeserializer::new(sound)).map(Some)
            }
            _ => Ok(None),
        }
    }
}

struct Items<'a> {
    reader: Reader<'a>,
    nodes: std::slice::Iter<'a, Node>,
}

impl<'de> de::SeqAccess<'de> for Items<'de> {
    type Error = Bad;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Bad> {
        self.nodes.next().map(|node| seed.deserialize(self.reader.on(node))).transpose()
    }
}

struct Entries<'a> {
    reader: Reader<'a>,
    rest: std::slice::Iter<'a, (Key, Node)>,
    known: Option<&'static [&'static str]>,
    value: Option<&'a Node>,
}

impl<'a> Entries<'a> {
    fn of(
        reader: Reader<'a>,
        entries: &'a [(Key, Node)],
        known: Option<&'static [&'static str]>,
    ) -> Self {
        Self { reader, rest: entries.iter(), known, value: None }
    }
}

impl<'de> de::MapAccess<'de> for Entries<'de> {
    type Error = Bad;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Bad> {
        for (key, node) in self.rest.by_ref() {
            match self.known {
                Some(known) if !known.contains(&key.text.as_str()) => {
                    self.reader.unknown_key(key, known);
                }
                _ => {
                    self.value = Some(node);
                    let text: StrDeserializer<'_, Bad> = key.text.as_str().into_deserializer();
                    return seed.deserialize(text).map(Some);
                }
            }
        }
        Ok(None)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Bad> {
        let node = self.value.take().ok_or_else(|| Bad::new("a key has no value"))?;
        seed.deserialize(self.reader.on(node))
    }
}
