//! Single types: one type for each schema, with `nullable` as a separate keyword.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::keywords;
use super::schema_loss::{LossKind, SchemaLoss};
use super::schema_merge;
use super::schema_walker::{SchemaObject, SchemaWalker};

const JSON_TYPES: [&str; 6] = ["string", "number", "integer", "boolean", "array", "object"];

impl SchemaWalker<'_> {
    /// Rewrites a schema for a provider that supports one type per schema.
    pub(super) fn enforce_single_type(
        &mut self,
        map: &mut Cow<'_, SchemaObject>,
        is_root: bool,
    ) -> Result<(), SchemaLoss> {
        if is_root {
            return self.reject_open_root(map);
        }
        self.rewrite_nulls(map);
        self.distribute_over_any_of(map)?;
        if map.contains_key("anyOf") {
            return Ok(());
        }
        match map.get("type").cloned() {
            Some(Value::String(kind)) if JSON_TYPES.contains(&kind.as_str()) => Ok(()),
            Some(Value::Array(kinds)) => self.split_types(map, kinds),
            None => self.infer_type(map),
            Some(_) => Err(self.unsupported_keyword("type", "unknown type")),
        }
    }

    /// A tool without arguments has no schema there; one that takes any has to have one.
    fn reject_open_root(&self, map: &SchemaObject) -> Result<(), SchemaLoss> {
        let more = map.get("additionalProperties");
        let open = more.is_some_and(|more| more.is_object() || *more == Value::Bool(true));
        let none =
            map.get("properties").and_then(Value::as_object).is_none_or(SchemaObject::is_empty);
        if none && (open || map.contains_key("patternProperties")) {
            return Err(self.unsupported_keyword("properties", "an object must have `properties`"));
        }
        Ok(())
    }

    /// `null` among types, values and alternatives is `nullable`.
    fn rewrite_nulls(&mut self, map: &mut Cow<'_, SchemaObject>) {
        let null = |keyword: &str, value: &Value| match keyword {
            "type" => value == "null",
            "enum" => value.is_null(),
            _ => value.get("type").is_some_and(|kind| kind == "null"),
        };
        let mut nullable = false;
        for keyword in ["type", "enum", "anyOf"] {
            let Some(Value::Array(list)) = map.get(keyword) else { continue };
            // Nothing but null is no alternative to anything.
            let retained: Vec<_> =
                list.iter().filter(|value| !null(keyword, value)).cloned().collect();
            if retained.is_empty() || retained.len() == list.len() {
                continue;
            }
            nullable = true;
            self.record_loss(keyword, LossKind::Rewritten, "null is expressed by `nullable`");
            map.to_mut().insert(keyword.to_owned(), Value::Array(retained));
        }
        if let Some(Value::Array(kinds)) = map.get("type")
            && let [kind] = kinds.as_slice()
        {
            let kind = kind.clone();
            map.to_mut().insert("type".to_owned(), kind);
        }
        if nullable {
            map.to_mut().insert("nullable".to_owned(), json!(true));
        }
    }

    /// Moves the keywords next to `anyOf` into each alternative.
    fn distribute_over_any_of(
        &mut self,
        map: &mut Cow<'_, SchemaObject>,
    ) -> Result<(), SchemaLoss> {
        let Some(Value::Array(list)) = map.get("anyOf").cloned() else { return Ok(()) };
        let only_required = |value: &Value| {
            value.as_object().is_some_and(|map| map.keys().all(|k| k == "required"))
        };
        if list.iter().all(only_required) {
            let map = map.to_mut();
            let text = keywords::keyword_note("anyOf", &Value::Array(list));
            let change = if text.is_some() { LossKind::DescribedOnly } else { LossKind::Dropped };
            map.shift_remove("anyOf");
            keywords::append_notes(map, text.as_slice());
            self.record_loss(
                "anyOf",
                change,
                "alternatives with only `required` are not supported there",
            );
            return Ok(());
        }
        if map.len() == 1 && list.len() > 1 {
            return Ok(());
        }
        self.record_loss(
            "anyOf",
            LossKind::Rewritten,
            "the keywords next to it are copied into each alternative",
        );
        let mut siblings = map.as_ref().clone();
        siblings.shift_remove("anyOf");
        let sibling_bytes: usize = siblings.values().map(schema_merge::approximate_bytes).sum();
        let mut each = Vec::with_capacity(list.len());
        for variant in list {
            let Value::Object(mut variant) = variant else {
                return Err(self.unsupported_keyword("anyOf", "Boolean schemas are not supported"));
            };
            self.charge_copy(sibling_bytes)?;
            for keyword in schema_merge::merge_into(&mut variant, siblings.clone()) {
                self.record_loss(&keyword, LossKind::Dropped, "an alternative contradicts it");
            }
            each.push(Value::Object(variant));
        }
        *map = match <[Value; 1]>::try_from(each) {
            Ok([Value::Object(one)]) => {
                // One alternative is the schema itself, which may refer, or have alternatives, again.
                let one = self.inline_refs(&one, false)?.into_owned();
                let mut one = self.rewrite_keywords(Cow::Owned(one), false)?;
                Cow::Owned(std::mem::take(one.to_mut()))
            }
            Ok([other]) => {
                Cow::Owned(SchemaObject::from_iter([("anyOf".to_owned(), json!([other]))]))
            }
            Err(each) => {
                Cow::Owned(SchemaObject::from_iter([("anyOf".to_owned(), Value::Array(each))]))
            }
        };
        Ok(())
    }

    /// Several types are alternatives, each with the keywords of its own.
    fn split_types(
        &mut self,
        map: &mut Cow<'_, SchemaObject>,
        kinds: Vec<Value>,
    ) -> Result<(), SchemaLoss> {
        self.record_loss(
            "type",
            LossKind::Rewritten,
            "several types are rewritten as \
            alternatives",
        );
        let mut each = Vec::new();
        for kind in kinds {
            let Some(kind) = kind.as_str().filter(|kind| JSON_TYPES.contains(kind)) else {
                return Err(self.unsupported_keyword("type", "unknown type"));
            };
            let is_allowed =
                |keyword: &str| keywords_of_type(keyword).is_none_or(|of| of.contains(&kind));
            let mut one: SchemaObject =
                map.iter().filter(|(keyword, _)| is_allowed(keyword)).map(owned_entry).collect();
            one.insert("type".to_owned(), json!(kind));
            if let Some(Value::Array(list)) = one.get_mut("enum") {
                list.retain(|value| type_fits(keywords::type_of_value(value), kind));
                if list.is_empty() {
                    continue;
                }
            }
            each.push(Value::Object(one));
        }
        *map = Cow::Owned(SchemaObject::from_iter([("anyOf".to_owned(), Value::Array(each))]));
        Ok(())
    }

    /// Infers the type from the enum values or from the keywords.
    pub(super) fn infer_type(&mut self, map: &mut Cow<'_, SchemaObject>) -> Result<(), SchemaLoss> {
        let listed = map.get("enum").and_then(Value::as_array).filter(|list| !list.is_empty());
        let of_values = listed.and_then(|list| {
            let kind = list.first().map(keywords::type_of_value)?;
            list.iter().all(|value| keywords::type_of_value(value) == kind).then_some(kind)
        });
        let of_keywords =
            || map.keys().find_map(|keyword| keywords_of_type(keyword)?.first().copied());
        let kind = of_values.or_else(of_keywords);
        let Some(kind) = kind.filter(|kind| JSON_TYPES.contains(kind)) else {
            return Err(self.unsupported_keyword("type", "a schema must have a type"));
        };
        self.record_loss("type", LossKind::Added, "a schema must have a type");
        map.to_mut().insert("type".to_owned(), json!(kind));
        Ok(())
    }
}

fn owned_entry((keyword, value): (&String, &Value)) -> (String, Value) {
    (keyword.clone(), value.clone())
}

fn type_fits(found: &str, kind: &str) -> bool {
    found == kind || (found == "integer" && kind == "number")
}

/// The types that a keyword is about; `None` for all.
fn keywords_of_type(keyword: &str) -> Option<&'static [&'static str]> {
    match keyword {
        "properties"
        | "required"
        | "additionalProperties"
        | "patternProperties"
        | "minProperties"
        | "maxProperties"
        | "propertyNames" => Some(&["object"]),
        "items" | "prefixItems" | "minItems" | "maxItems" | "uniqueItems" | "contains" => {
            Some(&["array"])
        }
        "minLength" | "maxLength" | "pattern" => Some(&["string"]),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => {
            Some(&["number", "integer"])
        }
        _ => None,
    }
}
