//! Parameters of a tool as JSON Schema, from spec 2's JSON Schema or spec 3's mapping of
//! parameters.

use serde_json::{Map, Value, json};
use tool::Json;

use super::fields::{Fault, Fields, Result, kind};

/// Keywords that spec 3 shares with JSON Schema.
const SAME: [&str; 6] = ["description", "default", "enum", "pattern", "minimum", "maximum"];
/// Parameter types of spec 3.
const TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "array", "object", "any"];

/// Converts spec 3's mapping, whose values each have a `type`; unknown arguments are rejected.
///
/// The `type` of a JSON Schema is a string itself, so the two forms are distinct.
fn of_spec_3(parameters: &Json) -> Result<Option<Json>> {
    let members = parameters.members();
    let parameter = |json: &Json| {
        json.kind() == "object"
            && json.get("type").as_ref().is_some_and(|kind| kind.kind() == "string")
    };
    // An empty mapping is a tool without parameters.
    if !members.iter().all(|(_, json)| parameter(json)) {
        return Ok(None);
    }
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for (name, parameter) in members {
        let fields = Fields::of(&parameter);
        let word = fields.text("type")?.unwrap_or_default();
        if !TYPES.contains(&word.as_str()) {
            let word: String = word.chars().take(64).collect();
            let told = format!("`parameters.{name}.type` is `{}`", word.escape_debug());
            return Err(Fault::new(told).fix(format!("use one of {}", TYPES.join(", "))));
        }
        let mut schema = Map::new();
        if word != "any" {
            schema.insert("type".to_owned(), json!(word));
        }
        for key in SAME {
            if let Some(value) = fields.any(key) {
                schema.insert(key.to_owned(), value.value());
            }
        }
        if fields.flag("required")? == Some(true) {
            required.push(name.clone());
        }
        properties.insert(name, Value::Object(schema));
    }
    let schema = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    Ok(Some(Json::of(&schema)))
}

/// Parses the parameters: JSON Schema whose root is an object.
///
/// The catalog compiles the whole schema later; these checks give errors in the terms of a tool
/// file.
pub(super) fn read(name: &str, fields: &Fields) -> Result<Json> {
    let wrong = |what: &str| {
        Fault::new(format!("Tool \"{name}\" {what}")).fix(
            "write `parameters` as a JSON Schema: `{type: object, properties: {…}, required: […]}`",
        )
    };
    let Some(schema) = fields.get("parameters") else {
        return Err(wrong("must have \"parameters\""));
    };
    if schema.kind() != "object" {
        return Err(wrong(&format!("has \"parameters\" that are {}", schema.kind())));
    }
    if let Some(translated) = of_spec_3(schema)? {
        return Ok(translated);
    }
    let members = Fields::of(schema);
    if members.get("type").is_none_or(|kind| kind.as_str() != "\"object\"") {
        return Err(wrong("has \"parameters\" whose \"type\" is not \"object\""));
    }
    if let Some(properties) = members.any("properties") {
        if properties.kind() != "object" {
            return Err(kind("parameters.properties", properties, "a mapping"));
        }
        for (property, schema) in properties.members() {
            if !matches!(schema.kind(), "object" | "boolean") {
                return Err(kind(
                    &format!("parameters.properties.{property}"),
                    &schema,
                    "a schema",
                ));
            }
        }
    }
    if let Some(required) = members.any("required")
        && required.read::<Vec<String>>().is_err()
    {
        return Err(kind("parameters.required", required, "a list of names"));
    }
    Ok(schema.clone())
}

#[cfg(test)]
mod tests;
