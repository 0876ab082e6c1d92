//! Conversion of a MessagePack body to JSON, independent of its content.
//!
//! Records remain readable even if this version would not write them, such as those with fields or
//! values of another version.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use tool::Digest;
use uuid::Uuid;

/// The body, in its order. Sixteen bytes are an id, thirty-two are a digest; both become text.
pub(crate) struct MsgpackValue(pub(crate) Value);

impl<'de> Deserialize<'de> for MsgpackValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyVisitor).map(Self)
    }
}

struct AnyVisitor;

impl<'de> Visitor<'de> for AnyVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what a record says")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Value, E> {
        Ok(truth.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Value, E> {
        let text = if let Ok(digest) = bytes.try_into() {
            Digest(digest).to_string()
        } else {
            let id = Uuid::from_slice(bytes);
            id.map_err(|_| E::custom("bytes that are neither an ID nor a digest"))?.to_string()
        };
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(MsgpackValue(element)) = elements.next_element()? {
            all.push(element);
        }
        Ok(all.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some((name, MsgpackValue(member))) = members.next_entry()? {
            all.insert(name, member);
        }
        Ok(all.into())
    }
}
