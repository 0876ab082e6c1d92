//! Validation of untrusted JSON text against limits, without building a tree: serde_json checks the
//! grammar, the visitor the limits.

mod quick;

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

use bytes::Bytes;
use bytestring::ByteString;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::{JsonError, Limits};

pub(super) use quick::picked;

/// Checks that the text is UTF-8.
pub(super) fn text(text: &Bytes, limits: Limits) -> Result<ByteString, JsonError> {
    // The serde path rejects it too, with the location.
    let refused = |_| long(text, limits).err().unwrap_or_else(not_text);
    ByteString::try_from(text.clone()).map_err(refused)
}

/// Validates a text by the fast path if that is certain, else by the serde path.
pub(super) fn scan(text: &str, limits: Limits) -> Result<(), JsonError> {
    if quick::plain(text, limits) { Ok(()) } else { long(text.as_bytes(), limits) }
}

fn not_text() -> JsonError {
    JsonError::Malformed { reason: "the text is not UTF-8".to_owned(), line: 1, column: 1 }
}

fn long(text: &[u8], limits: Limits) -> Result<(), JsonError> {
    let nodes = Cell::new(limits.nodes);
    let mut parser = serde_json::Deserializer::from_slice(text);
    Node { depth: limits.depth, nodes: &nodes, limits }
        .deserialize(&mut parser)
        .and_then(|()| parser.end())
        .map_err(|error| malformed(&error))
}

fn malformed(error: &serde_json::Error) -> JsonError {
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = error.to_string();
    let reason = text.strip_suffix(&place).unwrap_or(&text).to_owned();
    JsonError::Malformed { reason, line: error.line(), column: error.column() }
}

#[derive(Clone, Copy)]
struct Node<'a> {
    /// Number of levels that may still be opened.
    depth: usize,
    nodes: &'a Cell<usize>,
    limits: Limits,
}

impl Node<'_> {
    fn count<E: serde::de::Error>(&self) -> Result<(), E> {
        match self.nodes.get().checked_sub(1) {
            Some(left) => {
                self.nodes.set(left);
                Ok(())
            }
            None => Err(E::custom(format!("more than {} keys and elements", self.limits.nodes))),
        }
    }

    fn inner<E: serde::de::Error>(&self) -> Result<Self, E> {
        match self.depth.checked_sub(1) {
            Some(depth) => Ok(Self { depth, ..*self }),
            None => Err(E::custom(format!("nested deeper than {} levels", self.limits.depth))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let inner = self.inner()?;
        while seq.next_element_seed(inner)?.is_some() {
            self.count()?;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let inner = self.inner()?;
        let mut keys = Keys::default();
        while let Some(key) = map.next_key_seed(Key)? {
            self.count()?;
            if let Some(twice) = keys.add(key) {
                return Err(A::Error::custom(format!("key `{twice}` occurs twice")));
            }
            map.next_value_seed(inner)?;
        }
        Ok(())
    }
}

/// Deserialises a key, borrowed if it has no escapes.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }
    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }
    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}

/// Number of keys up to which a linear search is used: most objects have fewer, and hashing costs
/// more.
const FEW: usize = 12;

/// Keys of one object.
#[derive(Default)]
struct Keys<'de> {
    few: Vec<Cow<'de, str>>,
    many: HashSet<Cow<'de, str>>,
}

impl<'de> Keys<'de> {
    /// Inserts a key; returns it if it is a duplicate.
    fn add(&mut self, key: Cow<'de, str>) -> Option<Cow<'de, str>> {
        if self.few.contains(&key) || self.many.contains(&key) {
            return Some(key);
        }
        if self.few.len() < FEW {
            self.few.push(key);
        } else {
            self.many.insert(key);
        }
        None
    }
}
