//! YAML, bounded before anything is built: nodes, depth, aliases. The tree holds what JSON has, and
//! the line of each node.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{RenderOptions, Spanned, UserMessageFormatter};
use tool::Problem;

/// Reads `text`; `place` is the file's name for errors.
pub(super) fn read(text: &[u8], place: &str) -> Result<Spanned<Yaml>, Box<Problem>> {
    let text = std::str::from_utf8(text).map_err(|error| {
        let message = format!("not UTF-8 at byte {}", error.valid_up_to() + 1);
        Box::new(Problem::new(place, message).fix("save the file as UTF-8"))
    })?;
    let read = std::thread::scope(|scope| {
        let read = || serde_saphyr::from_str_with_options::<Spanned<Yaml>>(text, bounds());
        let reader =
            std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, read).ok()?;
        reader.join().ok()
    });
    let Some(read) = read else {
        return Err(Box::new(Problem::new(place, "the YAML reader broke down on this file")));
    };
    read.map_err(|error| {
        let location = error.location().filter(|location| location.line() > 0);
        let file = place;
        let place = location.map_or_else(
            || place.to_owned(),
            |at| format!("{place}:{}:{}", at.line(), at.column()),
        );
        let mut how = RenderOptions::new(&UserMessageFormatter);
        how.source_name = Some(file);
        let rendered = error.render_with_options(how);
        let rendered: String = rendered.trim_end().chars().take(2_000).collect();
        Box::new(Problem::new(place, rendered).fix("mend the YAML"))
    })
}

/// The reader calls itself for each level, with frames of some 30 KiB in a debug build: at 64 levels
/// more than the 2 MiB other threads have. Only what is used of it costs memory.
const STACK: usize = 16 << 20;

/// An alias bomb is stopped after a few thousand copies; a file of honest tools stays far below.
fn bounds() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: 500_000,
            max_events: 1_000_000,
            max_depth: 64,
            flow_nesting_limit: 64,
            max_documents: 1,
            max_aliases: 1_000,
            max_anchors: 1_000,
            max_recorded_anchor_events: 50_000,
            max_recorded_anchor_bytes: 1 << 20,
            max_merge_keys: 1_000,
            max_total_scalar_bytes: 16 << 20,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 50_000,
            max_replay_stack_depth: 16,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        // YAML 1.2: `yes`, `no` and `on` are words, as in an `enum` of a schema.
        strict_booleans: true,
        underscored_numbers_as_strings: true,
    }
}

/// YAML as a tree that knows its lines. Scalars are what JSON has.
pub(super) enum Yaml {
    List(Vec<Spanned<Self>>),
    Mapping(Vec<(String, Spanned<Self>)>),
    Scalar(Value),
}

impl Yaml {
    pub(super) fn value(self) -> Value {
        match self {
            Self::List(items) => Value::Array(items.into_iter().map(|i| i.value.value()).collect()),
            Self::Mapping(members) => {
                let member = |(key, value): (String, Spanned<Self>)| (key, value.value.value());
                Value::Object(members.into_iter().map(member).collect::<Map<_, _>>())
            }
            Self::Scalar(value) => value,
        }
    }
}

impl<'de> Deserialize<'de> for Yaml {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Build)
    }
}

struct Build;

impl<'de> Visitor<'de> for Build {
    type Value = Yaml;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON has")
    }
    fn visit_unit<E>(self) -> Result<Yaml, E> {
        Ok(Yaml::Scalar(Value::Null))
    }
    fn visit_none<E>(self) -> Result<Yaml, E> {
        Ok(Yaml::Scalar(Value::Null))
    }
    fn visit_bool<E>(self, value: bool) -> Result<Yaml, E> {
        Ok(Yaml::Scalar(value.into()))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Yaml, E> {
        Ok(Yaml::Scalar(value.into()))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Yaml, E> {
        Ok(Yaml::Scalar(value.into()))
    }
    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Yaml, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("JSON has no such number"));
        number.map(|number| Yaml::Scalar(Value::Number(number)))
    }
    fn visit_str<E>(self, value: &str) -> Result<Yaml, E> {
        Ok(Yaml::Scalar(value.into()))
    }
    fn visit_string<E>(self, value: String) -> Result<Yaml, E> {
        Ok(Yaml::Scalar(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Yaml, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Yaml::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Yaml, A::Error> {
        let (mut members, mut keys) = (Vec::new(), HashSet::new());
        while let Some(key) = map.next_key::<String>()? {
            // The reader compares keys as YAML does; JSON compares them as text.
            if !keys.insert(key.clone()) {
                return Err(A::Error::custom(format!("key `{key}` occurs twice")));
            }
            members.push((key, map.next_value()?));
        }
        Ok(Yaml::Mapping(members))
    }
}
