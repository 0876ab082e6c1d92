//! Visitor that writes values as JSON text without building a tree.

use std::collections::HashSet;
use std::fmt::{self, Write as _};

use json::write_quoted;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use tool::{Json, JsonLimits};

/// Value as JSON text.
pub(super) struct JsonText(pub(super) Json);

impl JsonText {
    /// Returns the JSON text that `write` writes.
    pub(super) fn write_with<E: Error>(
        write: impl FnOnce(JsonWriter<'_>) -> Result<(), E>,
    ) -> Result<Json, E> {
        let mut text = String::new();
        write(JsonWriter(&mut text))?;
        Json::parse(text, JsonLimits::DOCUMENT).map_err(E::custom)
    }

    /// Returns the JSON text of an opened mapping.
    pub(super) fn from_map_access<'de, A: MapAccess<'de>>(map: A) -> Result<Json, A::Error> {
        Self::write_with(|writer| writer.visit_map(map))
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::write_with(|writer| deserializer.deserialize_any(writer)).map(Self)
    }
}

/// Writer of the next value.
pub(super) struct JsonWriter<'t>(&'t mut String);

impl<'de> DeserializeSeed<'de> for JsonWriter<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl JsonWriter<'_> {
    fn write_display<E: Error>(self, value: impl fmt::Display) -> Result<(), E> {
        write!(self.0, "{value}").map_err(E::custom)
    }
}

impl<'de> Visitor<'de> for JsonWriter<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON supports")
    }
    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.write_display("null")
    }
    fn visit_none<E: Error>(self) -> Result<(), E> {
        self.write_display("null")
    }
    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.write_display(value)
    }
    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.write_display(value)
    }
    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.write_display(value)
    }
    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        let number = Number::from_f64(value);
        self.write_display(number.ok_or_else(|| E::custom("JSON cannot represent this number"))?)
    }
    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        write_quoted(self.0, value);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        self.0.push('[');
        let start = self.0.len();
        loop {
            let before = self.0.len();
            if before > start {
                self.0.push(',');
            }
            if seq.next_element_seed(JsonWriter(self.0))?.is_none() {
                self.0.truncate(before);
                break;
            }
        }
        self.0.push(']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.0.push('{');
        let mut keys = UniqueKeys::default();
        while let Some(key) = map.next_key::<String>()? {
            if !keys.is_empty() {
                self.0.push(',');
            }
            write_quoted(self.0, &key);
            keys.insert_unique(&key)?;
            self.0.push(':');
            map.next_value_seed(JsonWriter(self.0))?;
        }
        self.0.push('}');
        Ok(())
    }
}

/// Unique keys of one mapping. The parser compares keys as YAML does; JSON compares them as text.
#[derive(Default)]
pub(super) struct UniqueKeys {
    short_list: Vec<String>,
    hash_set: HashSet<String>,
}

/// Maximum keys for a linear search; most mappings have fewer, and hashing those is slower.
const LINEAR_SEARCH_MAX: usize = 12;

impl UniqueKeys {
    pub(super) fn is_empty(&self) -> bool {
        self.short_list.is_empty()
    }

    pub(super) fn insert_unique<E: Error>(&mut self, key: &str) -> Result<(), E> {
        if self.short_list.iter().any(|other| other == key) || self.hash_set.contains(key) {
            return Err(E::custom(format!("key `{key}` occurs twice")));
        }
        if self.short_list.len() < LINEAR_SEARCH_MAX {
            self.short_list.push(key.to_owned());
        } else {
            self.hash_set.insert(key.to_owned());
        }
        Ok(())
    }
}
