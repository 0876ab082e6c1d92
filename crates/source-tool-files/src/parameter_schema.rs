//! Parameters of a tool as JSON Schema, from the tool-file registry's JSON Schema or the research
//! registry's mapping of parameters.

use serde_json::{Map, Value, json};
use tool::Json;

use super::field_reader::{EntryError, EntryFields, EntryResult, escape_word, type_error};

/// Keywords that the research registry shares with JSON Schema.
const SHARED_KEYWORDS: [&str; 6] =
    ["description", "default", "enum", "pattern", "minimum", "maximum"];
/// Parameter types of the research registry.
const PARAMETER_TYPES: [&str; 7] =
    ["string", "integer", "number", "boolean", "array", "object", "any"];

/// Converts the research registry's mapping, whose values each have a `type`; unknown arguments are
/// rejected.
///
/// The `type` of a JSON Schema is a string itself, so the two forms are distinct.
fn convert_type_mapping(parameters: &Json) -> EntryResult<Option<Json>> {
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
        let fields = EntryFields::from_object(&parameter);
        let type_name = fields.string_field("type")?.unwrap_or_default();
        if !PARAMETER_TYPES.contains(&type_name.as_str()) {
            let message = format!("`parameters.{name}.type` is `{}`", escape_word(&type_name));
            return Err(EntryError::new(message)
                .with_help(format!("use one of {}", PARAMETER_TYPES.join(", "))));
        }
        let mut schema = Map::new();
        if type_name != "any" {
            schema.insert("type".to_owned(), json!(type_name));
        }
        for key in SHARED_KEYWORDS {
            if let Some(value) = fields.get_or_null(key) {
                schema.insert(key.to_owned(), value.to_value());
            }
        }
        if fields.bool_field("required")? == Some(true) {
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
    Ok(Some(Json::encode(&schema)))
}

/// Parses the parameters: JSON Schema whose root is an object.
///
/// The catalog compiles the whole schema later; these checks give errors in the terms of a tool
/// file.
pub(super) fn parse_parameters(name: &str, fields: &EntryFields) -> EntryResult<Json> {
    let schema_error = |what: &str| {
        EntryError::new(format!("Tool \"{name}\" {what}")).with_help(
            "write `parameters` as a JSON Schema: `{type: object, properties: {…}, required: […]}`",
        )
    };
    let Some(schema) = fields.get("parameters") else {
        return Err(schema_error("must have \"parameters\""));
    };
    if schema.kind() != "object" {
        return Err(schema_error(&format!("has \"parameters\" that are {}", schema.kind())));
    }
    if let Some(converted) = convert_type_mapping(schema)? {
        return Ok(converted);
    }
    let members = EntryFields::from_object(schema);
    if members.get("type").is_none_or(|kind| kind.as_str() != "\"object\"") {
        return Err(schema_error("has \"parameters\" whose \"type\" is not \"object\""));
    }
    if let Some(properties) = members.get_or_null("properties") {
        if properties.kind() != "object" {
            return Err(type_error("parameters.properties", properties, "a mapping"));
        }
        for (property, schema) in properties.members() {
            if !matches!(schema.kind(), "object" | "boolean") {
                return Err(type_error(
                    &format!("parameters.properties.{property}"),
                    &schema,
                    "a schema",
                ));
            }
        }
    }
    if let Some(required) = members.get_or_null("required")
        && required.decode::<Vec<String>>().is_err()
    {
        return Err(type_error("parameters.required", required, "a list of names"));
    }
    Ok(schema.clone())
}

#[cfg(test)]
mod tests;
