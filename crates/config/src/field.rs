//! One key's value as it was written: with its place, and without taking its neighbours down.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};

use super::Place;
use super::de::FIELD;

/// A value, where there is one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Field<T> {
    /// The key is not there, or holds nothing.
    #[default]
    Absent,
    /// It is there and cannot be read; the fault is told already.
    Faulty,
    /// It is there. Not sound where something within it is told to be wrong already.
    Given { value: T, place: Place, sound: bool },
}

impl<T> Field<T> {
    /// The value.
    pub(crate) fn get(&self) -> Option<&T> {
        match self {
            Self::Given { value, .. } => Some(value),
            Self::Absent | Self::Faulty => None,
        }
    }

    /// The value and its place.
    pub(crate) fn given(&self) -> Option<(&T, Place)> {
        match self {
            Self::Given { value, place, .. } => Some((value, *place)),
            Self::Absent | Self::Faulty => None,
        }
    }

    /// Whether nothing within it is told to be wrong.
    pub(crate) fn is_sound(&self) -> bool {
        matches!(self, Self::Absent | Self::Given { sound: true, .. })
    }

    /// Whether the key is not there at all.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(FIELD, Parts(PhantomData))
    }
}

struct Parts<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Parts<T> {
    type Value = Field<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value with its place")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Field<T>, A::Error> {
        let mut number = || parts.next_element::<usize>().map(|n| n.unwrap_or(1));
        let place = Place { line: number()?, column: number()? };
        let value = parts.next_element::<Option<T>>()?;
        let sound = parts.next_element()?.unwrap_or(false);
        Ok(match value {
            None => Field::Faulty,
            Some(None) => Field::Absent,
            Some(Some(value)) => Field::Given { value, place, sound },
        })
    }
}

/// In the schema a field is its value; a number or a truth value may also come from a variable.
impl<T: JsonSchema> JsonSchema for Field<T> {
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }
    fn schema_id() -> Cow<'static, str> {
        format!("Field<{}>", T::schema_id()).into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let schema = generator.subschema_for::<T>();
        let kind = schema.get("type").and_then(|kind| kind.as_str());
        if matches!(kind, Some("boolean" | "integer")) {
            return schemars::json_schema!({
                "anyOf": [schema, { "type": "string", "pattern": "^\\$\\{.*\\}$" }]
            });
        }
        schema
    }
}
