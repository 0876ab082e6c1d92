//! Validation of untrusted JSON text against limits, without building a tree: serde_json checks the
//! grammar, the visitor the limits.

mod fast_path;

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

use bytes::Bytes;
use bytestring::ByteString;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::{JsonError, JsonLimits};

pub(super) use fast_path::validate_and_pick;

/// Checks that the text is UTF-8.
pub(super) fn validate_utf8(text: &Bytes, limits: JsonLimits) -> Result<ByteString, JsonError> {
    // The serde path rejects it too, with the location.
    let refused = |_| validate_with_serde(text, limits).err().unwrap_or_else(not_utf8_error);
    ByteString::try_from(text.clone()).map_err(refused)
}

/// Validates a text by the fast path if that is certain, else by the serde path.
pub(super) fn validate(text: &str, limits: JsonLimits) -> Result<(), JsonError> {
    if fast_path::is_valid(text, limits) {
        Ok(())
    } else {
        validate_with_serde(text.as_bytes(), limits)
    }
}

fn not_utf8_error() -> JsonError {
    JsonError::Malformed { reason: "the text is not UTF-8".to_owned(), line: 1, column: 1 }
}

fn validate_with_serde(text: &[u8], limits: JsonLimits) -> Result<(), JsonError> {
    let nodes = Cell::new(limits.max_nodes);
    let mut parser = serde_json::Deserializer::from_slice(text);
    BoundedVisitor { remaining_depth: limits.max_depth, remaining_nodes: &nodes, limits }
        .deserialize(&mut parser)
        .and_then(|()| parser.end())
        .map_err(|error| malformed_error(&error))
}

fn malformed_error(error: &serde_json::Error) -> JsonError {
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = error.to_string();
    let reason = text.strip_suffix(&place).unwrap_or(&text).to_owned();
    JsonError::Malformed { reason, line: error.line(), column: error.column() }
}

#[derive(Clone, Copy)]
struct BoundedVisitor<'a> {
    /// Number of levels that may still be opened.
    remaining_depth: usize,
    remaining_nodes: &'a Cell<usize>,
    limits: JsonLimits,
}

impl BoundedVisitor<'_> {
    fn count_node<E: serde::de::Error>(&self) -> Result<(), E> {
        match self.remaining_nodes.get().checked_sub(1) {
            Some(left) => {
                self.remaining_nodes.set(left);
                Ok(())
            }
            None => {
                Err(E::custom(format!("more than {} keys and elements", self.limits.max_nodes)))
            }
        }
    }

    fn descend<E: serde::de::Error>(&self) -> Result<Self, E> {
        match self.remaining_depth.checked_sub(1) {
            Some(depth) => Ok(Self { remaining_depth: depth, ..*self }),
            None => Err(E::custom(format!("nested deeper than {} levels", self.limits.max_depth))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for BoundedVisitor<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for BoundedVisitor<'_> {
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
        let inner = self.descend()?;
        while seq.next_element_seed(inner)?.is_some() {
            self.count_node()?;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let inner = self.descend()?;
        let mut keys = KeySet::default();
        while let Some(key) = map.next_key_seed(KeySeed)? {
            self.count_node()?;
            if let Some(twice) = keys.insert_key(key) {
                return Err(A::Error::custom(format!("key `{twice}` occurs twice")));
            }
            map.next_value_seed(inner)?;
        }
        Ok(())
    }
}

/// Deserialises a key, borrowed if it has no escapes.
struct KeySeed;

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Cow<'de, str>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for KeySeed {
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
const LINEAR_SEARCH_MAX: usize = 12;

/// Keys of one object.
#[derive(Default)]
struct KeySet<'de> {
    short_list: Vec<Cow<'de, str>>,
    hash_set: HashSet<Cow<'de, str>>,
}

impl<'de> KeySet<'de> {
    /// Inserts a key; returns it if it is a duplicate.
    fn insert_key(&mut self, key: Cow<'de, str>) -> Option<Cow<'de, str>> {
        if self.short_list.contains(&key) || self.hash_set.contains(&key) {
            return Some(key);
        }
        if self.short_list.len() < LINEAR_SEARCH_MAX {
            self.short_list.push(key);
        } else {
            self.hash_set.insert(key);
        }
        None
    }
}
