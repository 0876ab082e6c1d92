//! The path of a tool file.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The path of a tool file. The tools themselves, as spec 2's configuration has them, are told where they go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolFilePath(pub(crate) String);

const FIX: &str =
    "save the tools in a file of their own and name it here, such as `tools: ./tools.yaml`";

impl<'de> Deserialize<'de> for ToolFilePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ToolFilePathVisitor)
    }
}

struct ToolFilePathVisitor;

impl<'de> Visitor<'de> for ToolFilePathVisitor {
    type Value = ToolFilePath;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the path of a tool file")
    }
    fn visit_str<E>(self, path: &str) -> Result<ToolFilePath, E> {
        Ok(ToolFilePath(path.to_owned()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<ToolFilePath, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Err(A::Error::custom(format!("expected the path of a tool file, found a list; {FIX}")))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ToolFilePath, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Err(A::Error::custom(format!("expected the path of a tool file, found a mapping; {FIX}")))
    }
}

impl JsonSchema for ToolFilePath {
    fn schema_name() -> Cow<'static, str> {
        "ToolFilePath".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}
