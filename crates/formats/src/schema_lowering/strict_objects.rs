//! Strict objects: every property is required, and optional ones become nullable.

use serde_json::{Value, json};

use super::keywords;
use super::schema_loss::{LossKind, SchemaLoss};
use super::schema_walker::{SchemaObject, SchemaWalker};

/// Maximum nesting depth that OpenAI accepts.
const MAX_OPENAI_DEPTH: usize = 10;

impl SchemaWalker<'_> {
    /// Makes an object strict after the walk of its keywords.
    pub(super) fn make_strict(&mut self, out: &mut SchemaObject) -> Result<(), SchemaLoss> {
        if self.depth > MAX_OPENAI_DEPTH {
            return Err(
                self.unsupported_keyword("properties", "it is nested deeper than 10 levels")
            );
        }
        if !keywords::has_type(out, "object") {
            return Ok(());
        }
        match out.get("additionalProperties") {
            Some(Value::Bool(false)) => {}
            Some(_) => {
                let why = "additional properties are not allowed";
                self.record_loss("additionalProperties", LossKind::Dropped, why);
            }
            None => {
                let why = "it must forbid additional properties";
                self.record_loss("additionalProperties", LossKind::Added, why);
            }
        }
        out.insert("additionalProperties".to_owned(), json!(false));
        // Inside there is always one; at the root a tool without arguments has none.
        self.complete_root(out);
        self.require_all_properties(out)
    }

    fn require_all_properties(&mut self, out: &mut SchemaObject) -> Result<(), SchemaLoss> {
        let required = super::schema_merge::required_names(out);
        let Some(Value::Object(properties)) = out.get_mut("properties") else { return Ok(()) };
        for (name, schema) in properties.iter_mut().filter(|(name, _)| !required.contains(*name)) {
            if !make_nullable(schema) {
                continue;
            }
            self.at_child("properties", |walker| {
                walker.at_child(name, |walker| {
                    let why = "it can be null instead of being omitted";
                    walker.record_loss("type", LossKind::Rewritten, why);
                    walker.nullable_pointers.push(walker.current_pointer().to_owned());
                    Ok(())
                })
            })?;
        }
        let more = properties.keys().filter(|name| !required.contains(*name));
        let more: Vec<_> = more.map(|name| json!(name)).collect();
        if !more.is_empty() || !out.contains_key("required") {
            self.record_loss("required", LossKind::Rewritten, "all properties must be required");
        }
        let list = out.entry("required").or_insert_with(|| json!([]));
        if let Value::Array(list) = list {
            list.extend(more);
        }
        Ok(())
    }
}

/// Lets a schema be null too; whether it could not before.
fn make_nullable(schema: &mut Value) -> bool {
    let Value::Object(map) = schema else { return false };
    let before = map.clone();
    let null = json!({ "type": "null" });
    if let Some(Value::Array(list)) = map.get_mut("anyOf")
        && !list.contains(&null)
    {
        list.push(null);
    }
    match map.get_mut("type") {
        Some(Value::Array(kinds)) if !kinds.contains(&json!("null")) => kinds.push(json!("null")),
        Some(Value::Array(_)) | None => {}
        Some(kind) if *kind == "null" => {}
        Some(kind) => *kind = json!([kind.take(), "null"]),
    }
    if let Some(Value::Array(list)) = map.get_mut("enum")
        && !list.contains(&Value::Null)
    {
        list.push(Value::Null);
    }
    *map != before
}
