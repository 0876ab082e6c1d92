//! Keyword rewrites: replaces legacy keywords, and keywords that a provider writes differently.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::keywords;
use super::provider_rules::SchemaShape;
use super::schema_loss::{LossKind, SchemaLoss};
use super::schema_walker::{SchemaObject, SchemaWalker};

impl SchemaWalker<'_> {
    /// Rewrites keywords before the walk.
    pub(super) fn rewrite_keywords<'m>(
        &mut self,
        mut map: Cow<'m, SchemaObject>,
        is_root: bool,
    ) -> Result<Cow<'m, SchemaObject>, SchemaLoss> {
        if is_root {
            self.require_object_root(&mut map)?;
        }
        self.rewrite_legacy_keywords(&mut map);
        self.rewrite_const(&mut map);
        self.rewrite_one_of(&mut map);
        self.rewrite_tuple(&mut map);
        if self.rules.is_single_type() {
            self.enforce_single_type(&mut map, is_root)?;
        }
        if self.rules.is_strict() && !map.contains_key("type") && !map.contains_key("anyOf") {
            self.infer_type(&mut map)?;
        }
        Ok(map)
    }

    /// The root is an object.
    fn require_object_root(&mut self, map: &mut Cow<'_, SchemaObject>) -> Result<(), SchemaLoss> {
        match map.get("type") {
            Some(Value::String(kind)) if kind == "object" => return Ok(()),
            None => {
                self.record_loss("type", LossKind::Added, "the root must have the type `object`");
            }
            Some(Value::Array(kinds)) if kinds.contains(&json!("object")) => {
                self.record_loss("type", LossKind::Rewritten, "arguments can only be an object");
            }
            Some(_) => return Err(self.unsupported_keyword("type", "arguments must be an object")),
        }
        let mut root = SchemaObject::new();
        root.insert("type".to_owned(), json!("object"));
        let rest = map.iter().filter(|(keyword, _)| *keyword != "type");
        root.extend(rest.map(|(keyword, value)| (keyword.clone(), value.clone())));
        *map = Cow::Owned(root);
        Ok(())
    }

    /// Draft 7's tuples and draft 4's exclusive bounds, in the words of 2020-12.
    fn rewrite_legacy_keywords(&mut self, map: &mut Cow<'_, SchemaObject>) {
        for (bound, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")]
        {
            let Some(Value::Bool(excluded)) = map.get(exclusive).cloned() else { continue };
            let map = map.to_mut();
            map.shift_remove(exclusive);
            if let Some(limit) = excluded.then(|| map.shift_remove(bound)).flatten() {
                map.insert(exclusive.to_owned(), limit);
                self.record_loss(
                    bound,
                    LossKind::Rewritten,
                    "it is rewritten as the exclusive \
                    bound",
                );
            }
            self.record_loss(
                exclusive,
                LossKind::Rewritten,
                "a Boolean bound is from JSON Schema draft 4",
            );
        }
        if map.get("items").is_some_and(Value::is_array) {
            let map = map.to_mut();
            if let Some(items) = map.shift_remove("items") {
                map.insert("prefixItems".to_owned(), items);
            }
            if let Some(rest) = map.shift_remove("additionalItems") {
                map.insert("items".to_owned(), rest);
            }
            self.record_loss(
                "items",
                LossKind::Rewritten,
                "a list of schemas is called `prefixItems` since draft 2020-12",
            );
        }
    }

    fn rewrite_const(&mut self, map: &mut Cow<'_, SchemaObject>) {
        if self.accepts_keyword("const") || map.contains_key("enum") {
            return;
        }
        let Some(value) = map.get("const").cloned() else { return };
        self.record_loss(
            "const",
            LossKind::Rewritten,
            "it is rewritten as an `enum` with one \
            value",
        );
        let map = map.to_mut();
        map.shift_remove("const");
        map.insert("enum".to_owned(), Value::Array(vec![value]));
    }

    fn rewrite_one_of(&mut self, map: &mut Cow<'_, SchemaObject>) {
        if self.accepts_keyword("oneOf") || map.contains_key("anyOf") || !map.contains_key("oneOf")
        {
            return;
        }
        self.record_loss(
            "oneOf",
            LossKind::Rewritten,
            "it is rewritten as `anyOf`, which allows several alternatives to match",
        );
        let map = map.to_mut();
        if let Some(list) = map.shift_remove("oneOf") {
            map.insert("anyOf".to_owned(), list);
        }
    }

    /// Rewrites a schema per list position to one schema for all items.
    fn rewrite_tuple(&mut self, map: &mut Cow<'_, SchemaObject>) {
        if self.accepts_keyword("prefixItems") {
            return;
        }
        let Some(Value::Array(mut item_schemas)) = map.get("prefixItems").cloned() else { return };
        self.record_loss("prefixItems", LossKind::Rewritten, "one schema is used for every item");
        let map = map.to_mut();
        map.shift_remove("prefixItems");
        item_schemas.extend(map.shift_remove("items").filter(Value::is_object));
        let mut distinct: Vec<Value> = Vec::new();
        for place in item_schemas {
            if !distinct.contains(&place) {
                distinct.push(place);
            }
        }
        let items = match <[Value; 1]>::try_from(distinct) {
            Ok([one]) => one,
            Err(several) => json!({ "anyOf": several }),
        };
        map.insert("items".to_owned(), items);
    }

    /// Completes a schema after the walk of its keywords.
    pub(super) fn complete_schema(
        &mut self,
        out: &mut SchemaObject,
        is_root: bool,
    ) -> Result<(), SchemaLoss> {
        self.prune_required(out);
        let array = keywords::has_type(out, "array");
        if array && self.rules.requires_items_and_properties && !out.contains_key("items") {
            if self.rules.schema_shape != SchemaShape::Any {
                return Err(self.unsupported_keyword("items", "an array must have `items`"));
            }
            self.record_loss("items", LossKind::Added, "an array must have `items`");
            out.insert("items".to_owned(), json!({}));
        }
        let object = keywords::has_type(out, "object");
        let empty =
            || out.get("properties").and_then(Value::as_object).is_none_or(SchemaObject::is_empty);
        if object && self.rules.schema_shape != SchemaShape::Any && !is_root && empty() {
            return Err(self.unsupported_keyword("properties", "an object must have `properties`"));
        }
        if self.rules.is_strict() {
            return self.make_strict(out);
        }
        Ok(())
    }

    /// Only what is there can be required.
    fn prune_required(&mut self, out: &mut SchemaObject) {
        if self.rules.accepted_keywords.is_none() {
            return;
        }
        let Some(Value::Array(mut list)) = out.get("required").cloned() else { return };
        let before = list.len();
        let properties = out.get("properties").and_then(Value::as_object);
        list.retain(|name| {
            name.as_str().is_some_and(|name| properties.is_some_and(|all| all.contains_key(name)))
        });
        if list.len() == before {
            return;
        }
        self.record_loss(
            "required",
            LossKind::Dropped,
            "only properties in the schema can be \
            required",
        );
        if list.is_empty() {
            out.shift_remove("required");
        } else {
            out.insert("required".to_owned(), Value::Array(list));
        }
    }

    /// Completes the root after the walk: it always declares its arguments, even if there are none.
    pub(super) fn complete_root(&mut self, out: &mut SchemaObject) {
        if self.rules.requires_items_and_properties
            && !self.rules.is_single_type()
            && !out.contains_key("properties")
        {
            self.record_loss("properties", LossKind::Added, "the root must have `properties`");
            out.insert("properties".to_owned(), json!({}));
        }
    }
}
