//! The same thing said in another way: older keywords, and the provider's own.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::loss::{Change, Loss};
use super::rules::Shape;
use super::walk::{Object, Walker};
use super::words;

impl Walker<'_> {
    /// Before the keywords are walked.
    pub(super) fn shape<'m>(
        &mut self,
        mut map: Cow<'m, Object>,
        top: bool,
    ) -> Result<Cow<'m, Object>, Loss> {
        if top {
            self.object(&mut map)?;
        }
        self.older(&mut map);
        self.constant(&mut map);
        self.one_of(&mut map);
        self.tuple(&mut map);
        if self.rules.one_type() {
            self.one_type(&mut map, top)?;
        }
        if self.rules.closed() && !map.contains_key("type") && !map.contains_key("anyOf") {
            self.inferred(&mut map)?;
        }
        Ok(map)
    }

    /// The root is an object.
    fn object(&mut self, map: &mut Cow<'_, Object>) -> Result<(), Loss> {
        match map.get("type") {
            Some(Value::String(kind)) if kind == "object" => return Ok(()),
            None => self.lose("type", Change::Added, "the root must say that it is an object"),
            Some(Value::Array(kinds)) if kinds.contains(&json!("object")) => {
                self.lose("type", Change::Rewritten, "arguments are an object and nothing else");
            }
            Some(_) => return Err(self.out("type", "arguments are an object")),
        }
        let mut root = Object::new();
        root.insert("type".to_owned(), json!("object"));
        let rest = map.iter().filter(|(keyword, _)| *keyword != "type");
        root.extend(rest.map(|(keyword, value)| (keyword.clone(), value.clone())));
        *map = Cow::Owned(root);
        Ok(())
    }

    /// Draft 7's tuples and draft 4's exclusive bounds, in the words of 2020-12.
    fn older(&mut self, map: &mut Cow<'_, Object>) {
        for (bound, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")]
        {
            let Some(Value::Bool(excluded)) = map.get(exclusive).cloned() else { continue };
            let map = map.to_mut();
            map.shift_remove(exclusive);
            if let Some(limit) = excluded.then(|| map.shift_remove(bound)).flatten() {
                map.insert(exclusive.to_owned(), limit);
                self.lose(bound, Change::Rewritten, "it is the exclusive bound");
            }
            self.lose(exclusive, Change::Rewritten, "a bound that is true or false is of draft 4");
        }
        if map.get("items").is_some_and(Value::is_array) {
            let map = map.to_mut();
            if let Some(items) = map.shift_remove("items") {
                map.insert("prefixItems".to_owned(), items);
            }
            if let Some(rest) = map.shift_remove("additionalItems") {
                map.insert("items".to_owned(), rest);
            }
            self.lose(
                "items",
                Change::Rewritten,
                "a list of schemas is `prefixItems` since 2020-12",
            );
        }
    }

    fn constant(&mut self, map: &mut Cow<'_, Object>) {
        if self.takes("const") || map.contains_key("enum") {
            return;
        }
        let Some(value) = map.get("const").cloned() else { return };
        self.lose("const", Change::Rewritten, "one value is a list of one");
        let map = map.to_mut();
        map.shift_remove("const");
        map.insert("enum".to_owned(), Value::Array(vec![value]));
    }

    fn one_of(&mut self, map: &mut Cow<'_, Object>) {
        if self.takes("oneOf") || map.contains_key("anyOf") || !map.contains_key("oneOf") {
            return;
        }
        self.lose(
            "oneOf",
            Change::Rewritten,
            "it is written as `anyOf`: that not two may fit is not said",
        );
        let map = map.to_mut();
        if let Some(list) = map.shift_remove("oneOf") {
            map.insert("anyOf".to_owned(), list);
        }
    }

    /// A list with a schema for each place, where there can be only one for all.
    fn tuple(&mut self, map: &mut Cow<'_, Object>) {
        if self.takes("prefixItems") {
            return;
        }
        let Some(Value::Array(mut places)) = map.get("prefixItems").cloned() else { return };
        self.lose(
            "prefixItems",
            Change::Rewritten,
            "one schema stands for every place in the list",
        );
        let map = map.to_mut();
        map.shift_remove("prefixItems");
        places.extend(map.shift_remove("items").filter(Value::is_object));
        let mut distinct: Vec<Value> = Vec::new();
        for place in places {
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

    /// After the keywords were walked.
    pub(super) fn whole(&mut self, out: &mut Object, top: bool) -> Result<(), Loss> {
        self.required(out);
        let array = words::is(out, "array");
        if array && self.rules.complete && !out.contains_key("items") {
            if self.rules.shape != Shape::Any {
                return Err(self.out("items", "a list must say what is in it"));
            }
            self.lose("items", Change::Added, "a list must say what is in it");
            out.insert("items".to_owned(), json!({}));
        }
        let object = words::is(out, "object");
        let empty =
            || out.get("properties").and_then(Value::as_object).is_none_or(Object::is_empty);
        if object && self.rules.shape != Shape::Any && !top && empty() {
            return Err(self.out("properties", "an object must say what is in it"));
        }
        if self.rules.closed() {
            return self.close(out);
        }
        Ok(())
    }

    /// Only what is there can be required.
    fn required(&mut self, out: &mut Object) {
        if self.rules.accepts.is_none() {
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
        self.lose("required", Change::Dropped, "only what is shown can be required");
        if list.is_empty() {
            out.shift_remove("required");
        } else {
            out.insert("required".to_owned(), Value::Array(list));
        }
    }

    /// The root, when all is walked: it shows its arguments, if there are none too.
    pub(super) fn rooted(&mut self, out: &mut Object) {
        if self.rules.complete && !self.rules.one_type() && !out.contains_key("properties") {
            self.lose("properties", Change::Added, "the root must say its arguments");
            out.insert("properties".to_owned(), json!({}));
        }
    }
}
