//! One type for each schema, with `nullable` beside it.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::loss::{Change, Loss};
use super::merge;
use super::walk::{Object, Walker};
use super::words;

const TYPES: [&str; 6] = ["string", "number", "integer", "boolean", "array", "object"];

impl Walker<'_> {
    /// As a provider wants it that knows one type in each schema.
    pub(super) fn one_type(&mut self, map: &mut Cow<'_, Object>, top: bool) -> Result<(), Loss> {
        if top {
            return self.open_root(map);
        }
        self.nulls(map);
        self.alternatives(map)?;
        if map.contains_key("anyOf") {
            return Ok(());
        }
        match map.get("type").cloned() {
            Some(Value::String(kind)) if TYPES.contains(&kind.as_str()) => Ok(()),
            Some(Value::Array(kinds)) => self.several(map, kinds),
            None => self.inferred(map),
            Some(_) => Err(self.out("type", "there is no such type")),
        }
    }

    /// A tool without arguments has no schema there; one that takes any has to have one.
    fn open_root(&self, map: &Object) -> Result<(), Loss> {
        let more = map.get("additionalProperties");
        let open = more.is_some_and(|more| more.is_object() || *more == Value::Bool(true));
        let none = map.get("properties").and_then(Value::as_object).is_none_or(Object::is_empty);
        if none && (open || map.contains_key("patternProperties")) {
            return Err(self.out("properties", "an object must say what is in it"));
        }
        Ok(())
    }

    /// `null` among types, values and alternatives is `nullable`.
    fn nulls(&mut self, map: &mut Cow<'_, Object>) {
        let null = |keyword: &str, value: &Value| match keyword {
            "type" => value == "null",
            "enum" => value.is_null(),
            _ => value.get("type").is_some_and(|kind| kind == "null"),
        };
        let mut nullable = false;
        for keyword in ["type", "enum", "anyOf"] {
            let Some(Value::Array(list)) = map.get(keyword) else { continue };
            // Nothing but null is no alternative to anything.
            let kept: Vec<_> = list.iter().filter(|value| !null(keyword, value)).cloned().collect();
            if kept.is_empty() || kept.len() == list.len() {
                continue;
            }
            nullable = true;
            self.lose(keyword, Change::Rewritten, "that it may be null is said by `nullable`");
            map.to_mut().insert(keyword.to_owned(), Value::Array(kept));
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

    /// `anyOf` stands alone: what stood beside it belongs to each alternative.
    fn alternatives(&mut self, map: &mut Cow<'_, Object>) -> Result<(), Loss> {
        let Some(Value::Array(list)) = map.get("anyOf").cloned() else { return Ok(()) };
        let only_required = |value: &Value| {
            value.as_object().is_some_and(|map| map.keys().all(|k| k == "required"))
        };
        if list.iter().all(only_required) {
            let map = map.to_mut();
            let text = words::told("anyOf", &Value::Array(list));
            let change = if text.is_some() { Change::Told } else { Change::Dropped };
            map.shift_remove("anyOf");
            words::describe(map, text.as_slice());
            self.lose("anyOf", change, "alternatives that only require are no schemas there");
            return Ok(());
        }
        if map.len() == 1 && list.len() > 1 {
            return Ok(());
        }
        self.lose("anyOf", Change::Rewritten, "what stands beside it belongs to each alternative");
        let mut beside = map.as_ref().clone();
        beside.shift_remove("anyOf");
        let weight: usize = beside.values().map(merge::weight).sum();
        let mut each = Vec::with_capacity(list.len());
        for variant in list {
            let Value::Object(mut variant) = variant else {
                return Err(self.out("anyOf", "a schema that is true or false cannot be written"));
            };
            self.copy(weight)?;
            for keyword in merge::into(&mut variant, beside.clone()) {
                self.lose(&keyword, Change::Dropped, "an alternative says it otherwise");
            }
            each.push(Value::Object(variant));
        }
        *map = match <[Value; 1]>::try_from(each) {
            Ok([Value::Object(one)]) => {
                // One alternative is the schema itself, which may refer, or have alternatives, again.
                let one = self.unfold(&one, false)?.into_owned();
                let mut one = self.shape(Cow::Owned(one), false)?;
                Cow::Owned(std::mem::take(one.to_mut()))
            }
            Ok([other]) => Cow::Owned(Object::from_iter([("anyOf".to_owned(), json!([other]))])),
            Err(each) => Cow::Owned(Object::from_iter([("anyOf".to_owned(), Value::Array(each))])),
        };
        Ok(())
    }

    /// Several types are alternatives, each with the keywords of its own.
    fn several(&mut self, map: &mut Cow<'_, Object>, kinds: Vec<Value>) -> Result<(), Loss> {
        self.lose("type", Change::Rewritten, "several types are alternatives");
        let mut each = Vec::new();
        for kind in kinds {
            let Some(kind) = kind.as_str().filter(|kind| TYPES.contains(kind)) else {
                return Err(self.out("type", "there is no such type"));
            };
            let belongs = |keyword: &str| of_type(keyword).is_none_or(|of| of.contains(&kind));
            let mut one: Object =
                map.iter().filter(|(keyword, _)| belongs(keyword)).map(own).collect();
            one.insert("type".to_owned(), json!(kind));
            if let Some(Value::Array(list)) = one.get_mut("enum") {
                list.retain(|value| fits(words::kind(value), kind));
                if list.is_empty() {
                    continue;
                }
            }
            each.push(Value::Object(one));
        }
        *map = Cow::Owned(Object::from_iter([("anyOf".to_owned(), Value::Array(each))]));
        Ok(())
    }

    /// The type of its values, or of what is said of it.
    pub(super) fn inferred(&mut self, map: &mut Cow<'_, Object>) -> Result<(), Loss> {
        let listed = map.get("enum").and_then(Value::as_array).filter(|list| !list.is_empty());
        let of_values = listed.and_then(|list| {
            let kind = list.first().map(words::kind)?;
            list.iter().all(|value| words::kind(value) == kind).then_some(kind)
        });
        let of_keywords = || map.keys().find_map(|keyword| of_type(keyword)?.first().copied());
        let kind = of_values.or_else(of_keywords);
        let Some(kind) = kind.filter(|kind| TYPES.contains(kind)) else {
            return Err(self.out("type", "a schema must say its type"));
        };
        self.lose("type", Change::Added, "a schema must say its type");
        map.to_mut().insert("type".to_owned(), json!(kind));
        Ok(())
    }
}

fn own((keyword, value): (&String, &Value)) -> (String, Value) {
    (keyword.clone(), value.clone())
}

fn fits(found: &str, kind: &str) -> bool {
    found == kind || (found == "integer" && kind == "number")
}

/// The types that a keyword is about; `None` for all.
fn of_type(keyword: &str) -> Option<&'static [&'static str]> {
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
