//! Inlining: resolves references in place, merges `allOf`, and flattens alternatives at the root.

use std::borrow::Cow;

use serde_json::Value;

use super::schema_loss::{LossKind, SchemaLoss};
use super::schema_merge;
use super::schema_walker::{SchemaObject, SchemaWalker};

/// References behind references, and `allOf` within `allOf`.
const MAX_REF_HOPS: usize = 64;
/// Schemas inside each other before a reference is not followed any further.
const MAX_INLINE_DEPTH: usize = 40;

impl SchemaWalker<'_> {
    /// Inlines everything that the provider does not resolve itself.
    pub(super) fn inline_refs<'m>(
        &mut self,
        map: &'m SchemaObject,
        is_root: bool,
    ) -> Result<Cow<'m, SchemaObject>, SchemaLoss> {
        let mut map = Cow::Borrowed(map);
        for _ in 0..MAX_REF_HOPS {
            let has = |word: &str| map.contains_key(word);
            let next = if (is_root || !self.rules.follows_refs) && has("$ref") {
                self.resolve_ref(map.into_owned())?
            } else if (is_root || !self.accepts_keyword("allOf")) && has("allOf") {
                self.merge_all_of(map.into_owned())?
            } else if is_root && has("anyOf") {
                self.flatten_root_alternatives(map.into_owned(), "anyOf")?
            } else if is_root && has("oneOf") {
                self.flatten_root_alternatives(map.into_owned(), "oneOf")?
            } else {
                return Ok(map);
            };
            map = Cow::Owned(next);
        }
        Err(self.unsupported_keyword("$ref", "its chain of references is too long"))
    }

    /// Resolves `$ref`; keywords next to it override the target.
    fn resolve_ref(&mut self, mut map: SchemaObject) -> Result<SchemaObject, SchemaLoss> {
        let Some(Value::String(target)) = map.shift_remove("$ref") else { return Ok(map) };
        let root = self.root;
        let found = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        let Some(Value::Object(found)) = found else {
            self.record_loss(
                "$ref",
                LossKind::Dropped,
                "the reference has no schema as its target",
            );
            return Ok(map);
        };
        if self.open_refs.contains(&target) || self.depth > MAX_INLINE_DEPTH {
            let why = "it is recursive or too deep, so its content is omitted";
            self.record_loss("$ref", LossKind::Dropped, why);
            if let (Some(kind), false) = (found.get("type"), map.contains_key("type")) {
                map.insert("type".to_owned(), kind.clone());
            }
            return Ok(map);
        }
        self.charge_copy(found.values().map(schema_merge::approximate_bytes).sum())?;
        self.record_loss("$ref", LossKind::Rewritten, "the reference is resolved in place");
        self.open_refs.push(target);
        self.merge_recording_losses(&mut map, found.clone());
        Ok(map)
    }

    /// With the parts of `allOf` as one.
    fn merge_all_of(&mut self, mut map: SchemaObject) -> Result<SchemaObject, SchemaLoss> {
        let Some(Value::Array(parts)) = map.shift_remove("allOf") else { return Ok(map) };
        self.record_loss("allOf", LossKind::Rewritten, "its parts are merged into one");
        for part in parts {
            let Value::Object(part) = part else { continue };
            let part = self.follow_refs(part)?;
            self.merge_recording_losses(&mut map, part);
        }
        Ok(map)
    }

    /// A schema behind its references.
    fn follow_refs(&mut self, mut map: SchemaObject) -> Result<SchemaObject, SchemaLoss> {
        for _ in 0..MAX_REF_HOPS {
            if !map.contains_key("$ref") {
                return Ok(map);
            }
            map = self.resolve_ref(map)?;
        }
        Err(self.unsupported_keyword("$ref", "its chain of references is too long"))
    }

    fn merge_recording_losses(&mut self, map: &mut SchemaObject, more: SchemaObject) {
        for keyword in schema_merge::merge_into(map, more) {
            self.record_loss(&keyword, LossKind::Dropped, "it occurs twice; the first one is used");
        }
    }

    /// Merges the arguments of all root alternatives. A note states which of them belong together.
    fn flatten_root_alternatives(
        &mut self,
        mut map: SchemaObject,
        word: &str,
    ) -> Result<SchemaObject, SchemaLoss> {
        let Some(Value::Array(variants)) = map.shift_remove(word) else { return Ok(map) };
        self.record_loss(
            word,
            LossKind::DescribedOnly,
            "the root must not have alternatives, so their arguments are merged",
        );
        let mut groups = Vec::new();
        for (index, variant) in variants.into_iter().enumerate() {
            let Value::Object(variant) = variant else { continue };
            let variant = self.at_child(word, |walker| {
                walker.at_child(&index.to_string(), |walker| {
                    let variant = walker.follow_refs(variant)?;
                    let variant = if variant.contains_key("allOf") {
                        walker.merge_all_of(variant)?
                    } else {
                        variant
                    };
                    for keyword in variant.keys() {
                        if !matches!(keyword.as_str(), "type" | "properties" | "required") {
                            let why = "it applies to one alternative only";
                            walker.record_loss(keyword, LossKind::Dropped, why);
                        }
                    }
                    Ok(variant)
                })
            })?;
            schema_merge::add_alternative(&mut map, &variant);
            groups.push(schema_merge::required_names(&variant));
        }
        let (shared, notes) = schema_merge::describe_required_groups(groups);
        schema_merge::add_required(&mut map, &shared);
        self.root_notes.extend(notes);
        map.entry("type").or_insert_with(|| "object".into());
        Ok(map)
    }
}
