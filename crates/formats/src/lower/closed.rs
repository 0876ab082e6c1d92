//! Objects of which nothing may be left out: what may be absent may be null instead.

use serde_json::{Value, json};

use super::loss::{Change, Loss};
use super::walk::{Object, Walker};
use super::words;

/// Levels of schemas inside each other that OpenAI takes.
const LEVELS: usize = 10;

impl Walker<'_> {
    /// After the keywords were walked.
    pub(super) fn close(&mut self, out: &mut Object) -> Result<(), Loss> {
        if self.depth > LEVELS {
            return Err(self.out("properties", "it is nested deeper than 10 levels"));
        }
        if !words::is(out, "object") {
            return Ok(());
        }
        match out.get("additionalProperties") {
            Some(Value::Bool(false)) => {}
            Some(_) => {
                let why = "nothing may be there but what is shown";
                self.lose("additionalProperties", Change::Dropped, why);
            }
            None => {
                let why = "it must say that nothing else may be there";
                self.lose("additionalProperties", Change::Added, why);
            }
        }
        out.insert("additionalProperties".to_owned(), json!(false));
        // Inside there is always one; at the root a tool without arguments has none.
        self.rooted(out);
        self.require_all(out)
    }

    fn require_all(&mut self, out: &mut Object) -> Result<(), Loss> {
        let required = super::merge::required(out);
        let Some(Value::Object(properties)) = out.get_mut("properties") else { return Ok(()) };
        for (name, schema) in properties.iter_mut().filter(|(name, _)| !required.contains(*name)) {
            if !nullable(schema) {
                continue;
            }
            self.inside("properties", |walker| {
                walker.inside(name, |walker| {
                    let why = "it may be null instead of being left out";
                    walker.lose("type", Change::Rewritten, why);
                    walker.nulls.push(walker.place().to_owned());
                    Ok(())
                })
            })?;
        }
        let more = properties.keys().filter(|name| !required.contains(*name));
        let more: Vec<_> = more.map(|name| json!(name)).collect();
        if !more.is_empty() || !out.contains_key("required") {
            self.lose("required", Change::Rewritten, "all of it must be required");
        }
        let list = out.entry("required").or_insert_with(|| json!([]));
        if let Value::Array(list) = list {
            list.extend(more);
        }
        Ok(())
    }
}

/// Lets a schema be null too; whether it could not before.
fn nullable(schema: &mut Value) -> bool {
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
