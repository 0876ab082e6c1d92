//! From YAML text to a tree. Bounded: 1 MiB, 64 levels, 20,000 values, aliases counted as copied.

use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::NonFiniteFloatPolicy;
use serde_saphyr::{Error, Location, Spanned};

use super::node::{Key, Kind, Node, Scalar};
use super::{Fault, Place};

/// The longest file, in bytes.
pub(crate) const FILE_BYTES: usize = 1 << 20;
const DEPTH: usize = 64;
const NODES: usize = 20_000;

/// Reads one document.
pub(crate) fn parse(file: &Path, text: &str) -> Result<Node, Fault> {
    if text.len() > FILE_BYTES {
        let message = format!("the file has {} bytes; {FILE_BYTES} are allowed", text.len());
        return Err(Fault::new(file, Place::TOP, message));
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: DEPTH, max_nodes: NODES, max_documents: 1 },
        strict_booleans: true,
        with_snippet: false,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
    };
    let raw: Spanned<Raw> = match serde_saphyr::from_str_with_options(text, options) {
        Ok(raw) => raw,
        Err(error) => return Err(syntax(file, text, &error)),
    };
    Ok(node(text, raw))
}

fn syntax(file: &Path, text: &str, error: &Error) -> Fault {
    let place = error.location().map_or(Place::TOP, place);
    let message = match error {
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("the key `{}` occurs twice", super::node::shorten(key))
        }
        other => {
            // The place is ours to draw, not the message's to tell.
            let all = other.to_string();
            all.split(" at line ").next().unwrap_or(&all).to_owned()
        }
    };
    let fault = Fault::new(file, place, message).excerpt(text);
    match error {
        _ if has_tab(text, place) => fault.fix("indent with spaces: YAML allows no tabs there"),
        Error::UnknownAnchor { .. } => fault.fix("put a text that begins with `*` in quotes"),
        _ => fault,
    }
}

/// Whether the line of a fault is indented with a tab.
fn has_tab(text: &str, place: Place) -> bool {
    let line = text.lines().nth(place.line.saturating_sub(1)).unwrap_or_default();
    line.chars().take_while(|c| c.is_whitespace()).any(|c| c == '\t')
}

fn place(location: Location) -> Place {
    let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).max(1);
    Place { line: number(location.line()), column: number(location.column()) }
}

fn node(text: &str, raw: Spanned<Raw>) -> Node {
    let written = written(text, raw.defined);
    let scalar = |value: Option<String>| {
        let quoted = written.starts_with(['\'', '"']);
        let text = value.unwrap_or_else(|| written.to_owned());
        let plain = !quoted && !text.contains('\n');
        Kind::Scalar(Scalar { text, plain })
    };
    let kind = match raw.value {
        Raw::Null => Kind::Null,
        Raw::Typed => scalar(None),
        Raw::Text(value) => scalar(Some(value)),
        Raw::List(items) => Kind::List(items.into_iter().map(|item| node(text, item)).collect()),
        Raw::Map(entries) => {
            let entry = |(key, value): (Spanned<String>, Spanned<Raw>)| {
                let key = Key { place: place(key.referenced), text: key.value };
                (key, node(text, value))
            };
            Kind::Map(entries.into_iter().map(entry).collect())
        }
    };
    Node { place: place(raw.referenced), secret: false, kind }
}

/// The scalar as it stands in the file: `0x10` and `1.50` are then still what was typed.
fn written(text: &str, location: Location) -> &str {
    let index = |n: Option<u64>| n.and_then(|n| usize::try_from(n).ok());
    let span = location.span();
    let (start, len) = (index(span.byte_offset()), index(span.byte_len()));
    let range = start.zip(len).map(|(start, len)| start..start.saturating_add(len));
    range.and_then(|range| text.get(range)).unwrap_or_default().trim_end()
}

/// What YAML makes of a value before anything is known of what is wanted.
enum Raw {
    Null,
    /// A number or a truth value; its text is taken from the file.
    Typed,
    Text(String),
    List(Vec<Spanned<Self>>),
    Map(Vec<(Spanned<String>, Spanned<Self>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }
    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }
    fn visit_bool<E>(self, _: bool) -> Result<Raw, E> {
        Ok(Raw::Typed)
    }
    fn visit_i64<E>(self, _: i64) -> Result<Raw, E> {
        Ok(Raw::Typed)
    }
    fn visit_u64<E>(self, _: u64) -> Result<Raw, E> {
        Ok(Raw::Typed)
    }
    fn visit_i128<E>(self, _: i128) -> Result<Raw, E> {
        Ok(Raw::Typed)
    }
    fn visit_u128<E>(self, _: u128) -> Result<Raw, E> {
        Ok(Raw::Typed)
    }
    fn visit_f64<E>(self, _: f64) -> Result<Raw, E> {
        Ok(Raw::Typed)
    }
    fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw::Text(text.to_owned()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Raw::Map(entries))
    }
}

#[cfg(test)]
mod tests;
