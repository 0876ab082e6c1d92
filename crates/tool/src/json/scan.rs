//! One pass over a text that builds nothing: serde_json does the grammar, the visitor the bounds.

use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::{JsonError, Limits};

pub(super) fn scan(text: &[u8], limits: Limits) -> Result<(), JsonError> {
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
    /// Levels that may still be opened.
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
        let mut keys = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            self.count()?;
            if keys.contains(&key) {
                return Err(A::Error::custom(format!("key `{key}` occurs twice")));
            }
            keys.insert(key);
            map.next_value_seed(inner)?;
        }
        Ok(())
    }
}
