//! Upper levels of a tool file, deserialised with line numbers: the root, its `tools`, and the
//! entries of those.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use tool::Json;

use super::write::{Keys, Text, Writer};
use super::{Yaml, line_of};

/// Root level of the file.
pub(super) type Root = Level<Level<Tools>>;

/// Level whose members have the level `B`.
pub(super) struct Level<B>(Yaml, PhantomData<B>);

/// Lowest level: the elements of a list have lines, other values are not split.
pub(super) struct Tools(Yaml);

impl<B> From<Level<B>> for Yaml {
    fn from(level: Level<B>) -> Self {
        level.0
    }
}

impl From<Tools> for Yaml {
    fn from(tools: Tools) -> Self {
        tools.0
    }
}

impl<'de, B: Deserialize<'de> + Into<Yaml>> Deserialize<'de> for Level<B> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let build = Build::<B>(PhantomData);
        deserializer.deserialize_any(build).map(|yaml| Self(yaml, PhantomData))
    }
}

impl<'de> Deserialize<'de> for Tools {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Build::<Lowest>(PhantomData)).map(Self)
    }
}

/// Marker for values below the lowest level.
struct Lowest;

/// Construction of a level's mappings.
trait Members<'de> {
    fn of<A: MapAccess<'de>>(map: A) -> Result<Yaml, A::Error>;
}

impl<'de> Members<'de> for Lowest {
    fn of<A: MapAccess<'de>>(map: A) -> Result<Yaml, A::Error> {
        Text::mapping(map).map(Yaml::Text)
    }
}

impl<'de, B: Deserialize<'de> + Into<Yaml>> Members<'de> for B {
    fn of<A: MapAccess<'de>>(mut map: A) -> Result<Yaml, A::Error> {
        let (mut members, mut keys) = (Vec::new(), Keys::default());
        while let Some(key) = map.next_key::<String>()? {
            keys.add(&key)?;
            let value = map.next_value::<Spanned<B>>()?;
            members.push((key, line_of(&value), value.value.into()));
        }
        Ok(Yaml::Mapping(members))
    }
}

struct Build<B>(PhantomData<B>);

impl<B> Build<B> {
    fn scalar<E: serde::de::Error>(
        write: impl FnOnce(Writer<'_>) -> Result<(), E>,
    ) -> Result<Yaml, E> {
        Text::of(write).map(Yaml::Text)
    }
}

impl<'de, B: Members<'de>> Visitor<'de> for Build<B> {
    type Value = Yaml;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON has")
    }
    fn visit_unit<E: serde::de::Error>(self) -> Result<Yaml, E> {
        Self::scalar(|writer| writer.visit_unit())
    }
    fn visit_none<E: serde::de::Error>(self) -> Result<Yaml, E> {
        self.visit_unit()
    }
    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Yaml, E> {
        Self::scalar(|writer| writer.visit_bool(value))
    }
    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Yaml, E> {
        Self::scalar(|writer| writer.visit_i64(value))
    }
    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Yaml, E> {
        Self::scalar(|writer| writer.visit_u64(value))
    }
    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Yaml, E> {
        Self::scalar(|writer| writer.visit_f64(value))
    }
    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Yaml, E> {
        Self::scalar(|writer| writer.visit_str(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Yaml, A::Error> {
        let mut items: Vec<(usize, Json)> = Vec::new();
        while let Some(item) = seq.next_element::<Spanned<Text>>()? {
            items.push((line_of(&item), item.value.0));
        }
        Ok(Yaml::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Yaml, A::Error> {
        B::of(map)
    }
}
