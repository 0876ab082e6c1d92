//! Resolution of a schema's references to its own parts: by pointer, by anchor, by `$id`.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// Addresses of the published drafts, which a validator includes and whose size is bounded.
const DRAFT_PREFIXES: [&str; 2] = ["http://json-schema.org/", "https://json-schema.org/"];

/// A subschema and its enclosing resource.
type ReferenceTarget<'s> = (&'s Value, &'s Value);

/// Anchors and resources of a schema.
pub(super) struct SchemaReferences<'s> {
    anchors: HashMap<&'s str, Vec<ReferenceTarget<'s>>>,
    resources: Vec<(&'s str, &'s Value)>,
}

/// Returns true if these keywords form a resource of its own, at which pointers start.
pub(super) fn is_resource(schema: &Map<String, Value>) -> bool {
    schema.get("$id").and_then(Value::as_str).is_some_and(|id| !id.starts_with('#'))
}

impl<'s> SchemaReferences<'s> {
    pub(super) fn from_schema(schema: &'s Value) -> Self {
        let mut found = Self { anchors: HashMap::new(), resources: Vec::new() };
        found.collect_references(schema, schema);
        found
    }

    fn collect_references(&mut self, value: &'s Value, resource: &'s Value) {
        match value {
            Value::Object(words) => {
                let resource = if is_resource(words) { value } else { resource };
                let text = |word: &str| words.get(word).and_then(Value::as_str);
                if let Some(id) = text("$id") {
                    match id.strip_prefix('#') {
                        Some(anchor) => self.add_anchor(anchor, (value, resource)),
                        None => self.resources.push((id.trim_end_matches('#'), value)),
                    }
                }
                for anchor in ["$anchor", "$dynamicAnchor"].into_iter().filter_map(text) {
                    self.add_anchor(anchor, (value, resource));
                }
                words.values().for_each(|value| self.collect_references(value, resource));
            }
            Value::Array(values) => {
                for value in values {
                    self.collect_references(value, resource);
                }
            }
            _ => {}
        }
    }

    fn add_anchor(&mut self, name: &'s str, target: ReferenceTarget<'s>) {
        self.anchors.entry(name).or_default().push(target);
    }

    /// Returns all possible targets of the reference `text` within `resource`.
    pub(super) fn resolve_reference(
        &self,
        resource: &'s Value,
        text: &str,
    ) -> Result<Vec<ReferenceTarget<'s>>, String> {
        let (base, fragment) = text.split_once('#').unwrap_or((text, ""));
        if DRAFT_PREFIXES.iter().any(|draft| base.starts_with(draft)) {
            return Ok(Vec::new());
        }
        let unknown = || {
            let text: String = text.chars().take(120).collect();
            let text = text.escape_debug();
            format!("the input schema has an unsupported `$ref`: `{text}`; write `#/$defs/NAME`")
        };
        let resources: Vec<_> = match base {
            "" => vec![resource],
            base => self
                .resources
                .iter()
                .filter(|(id, _)| may_match_id(id, base))
                .map(|it| it.1)
                .collect(),
        };
        let fragment = decode_percent(fragment);
        let targets: Vec<_> = if fragment.is_empty() || fragment.starts_with('/') {
            let below = |resource: &&'s Value| Some((resource.pointer(&fragment)?, *resource));
            resources.iter().filter_map(below).collect()
        } else {
            self.anchors.get(&*fragment).cloned().unwrap_or_default()
        };
        if targets.is_empty() { Err(unknown()) } else { Ok(targets) }
    }
}

/// Decodes percent-encoding; returns the fragment unchanged if the result is not UTF-8.
fn decode_percent(fragment: &str) -> String {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let digits = (*first == b'%').then(|| behind.get(..2)).flatten();
        let byte = digits.and_then(|it| u8::from_str_radix(std::str::from_utf8(it).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { behind.get(2..).unwrap_or_default() } else { behind };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| fragment.to_owned())
}

/// Returns true if a reference may mean this `$id`. Bases are not resolved here, so the last path
/// segment decides.
fn may_match_id(id: &str, base: &str) -> bool {
    let last = |text: &'_ str| text.rsplit(['/', ':']).next().unwrap_or_default().to_owned();
    id == base || last(id) == last(base)
}
