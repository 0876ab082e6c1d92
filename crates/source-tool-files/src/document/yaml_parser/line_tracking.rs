//! Upper levels of a tool file, deserialised with line numbers: the root, its `tools`, and the
//! entries of those.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use tool::Json;

use super::json_writer::{JsonText, JsonWriter, UniqueKeys};
use super::{YamlNode, spanned_line};

/// Root level of the file.
pub(super) type RootLevel = MappingLevel<MappingLevel<ToolsLevel>>;

/// Level whose members have the level `B`.
pub(super) struct MappingLevel<B>(YamlNode, PhantomData<B>);

/// Lowest level: the elements of a list have lines, other values are not split.
pub(super) struct ToolsLevel(YamlNode);

impl<B> From<MappingLevel<B>> for YamlNode {
    fn from(level: MappingLevel<B>) -> Self {
        level.0
    }
}

impl From<ToolsLevel> for YamlNode {
    fn from(tools: ToolsLevel) -> Self {
        tools.0
    }
}

impl<'de, B: Deserialize<'de> + Into<YamlNode>> Deserialize<'de> for MappingLevel<B> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let build = LevelVisitor::<B>(PhantomData);
        deserializer.deserialize_any(build).map(|yaml| Self(yaml, PhantomData))
    }
}

impl<'de> Deserialize<'de> for ToolsLevel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LevelVisitor::<UntrackedLevel>(PhantomData)).map(Self)
    }
}

/// Marker for values below the lowest level.
struct UntrackedLevel;

/// Construction of a level's mappings.
trait BuildMapping<'de> {
    fn build_mapping<A: MapAccess<'de>>(map: A) -> Result<YamlNode, A::Error>;
}

impl<'de> BuildMapping<'de> for UntrackedLevel {
    fn build_mapping<A: MapAccess<'de>>(map: A) -> Result<YamlNode, A::Error> {
        JsonText::from_map_access(map).map(YamlNode::Json)
    }
}

impl<'de, B: Deserialize<'de> + Into<YamlNode>> BuildMapping<'de> for B {
    fn build_mapping<A: MapAccess<'de>>(mut map: A) -> Result<YamlNode, A::Error> {
        let (mut members, mut keys) = (Vec::new(), UniqueKeys::default());
        while let Some(key) = map.next_key::<String>()? {
            keys.insert_unique(&key)?;
            let value = map.next_value::<Spanned<B>>()?;
            members.push((key, spanned_line(&value), value.value.into()));
        }
        Ok(YamlNode::Mapping(members))
    }
}

struct LevelVisitor<B>(PhantomData<B>);

impl<B> LevelVisitor<B> {
    fn write_scalar<E: serde::de::Error>(
        write: impl FnOnce(JsonWriter<'_>) -> Result<(), E>,
    ) -> Result<YamlNode, E> {
        JsonText::write_with(write).map(YamlNode::Json)
    }
}

impl<'de, B: BuildMapping<'de>> Visitor<'de> for LevelVisitor<B> {
    type Value = YamlNode;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON supports")
    }
    fn visit_unit<E: serde::de::Error>(self) -> Result<YamlNode, E> {
        Self::write_scalar(|writer| writer.visit_unit())
    }
    fn visit_none<E: serde::de::Error>(self) -> Result<YamlNode, E> {
        self.visit_unit()
    }
    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<YamlNode, E> {
        Self::write_scalar(|writer| writer.visit_bool(value))
    }
    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<YamlNode, E> {
        Self::write_scalar(|writer| writer.visit_i64(value))
    }
    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<YamlNode, E> {
        Self::write_scalar(|writer| writer.visit_u64(value))
    }
    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<YamlNode, E> {
        Self::write_scalar(|writer| writer.visit_f64(value))
    }
    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<YamlNode, E> {
        Self::write_scalar(|writer| writer.visit_str(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<YamlNode, A::Error> {
        let mut items: Vec<(usize, Json)> = Vec::new();
        while let Some(item) = seq.next_element::<Spanned<JsonText>>()? {
            items.push((spanned_line(&item), item.value.0));
        }
        Ok(YamlNode::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<YamlNode, A::Error> {
        B::build_mapping(map)
    }
}
