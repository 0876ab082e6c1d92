//! Which tools of a source are meant.

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};

/// All tools of a source, none, or some by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Which {
    All(bool),
    Named(Vec<String>),
}

impl<'de> Deserialize<'de> for Which {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WhichVisitor)
    }
}

struct WhichVisitor;

impl<'de> Visitor<'de> for WhichVisitor {
    type Value = Which;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`true`, `false` or a list of tool names")
    }
    fn visit_bool<E>(self, all: bool) -> Result<Which, E> {
        Ok(Which::All(all))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Which, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = list.next_element()? {
            names.push(name);
        }
        Ok(Which::Named(names))
    }
}

impl JsonSchema for Which {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Which".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "anyOf": [{ "type": "boolean" }, { "type": "array", "items": { "type": "string" } }]
        })
    }
}
