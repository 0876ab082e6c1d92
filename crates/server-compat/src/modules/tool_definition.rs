//! A tool as the module API defines it: a list of parameters instead of a schema.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use tool::{PermissionLevel, Tool};

/// The parameter types of the module API.
const PARAMETER_TYPES: [&str; 6] = ["string", "integer", "number", "boolean", "array", "object"];

/// The `ToolDefinition` of the module API.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct ToolDefinition {
    name: String,
    description: String,
    parameters: Vec<ToolParameter>,
    #[schemars(with = "String")]
    required_permission: PermissionLevel,
}

/// The `ToolParameter` of the module API.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct ToolParameter {
    name: String,
    r#type: &'static str,
    description: String,
    required: bool,
    r#enum: Option<Vec<String>>,
}

impl ToolDefinition {
    /// Converts any tool. Details inside arrays and objects are omitted, because the format has no
    /// place for them.
    pub(super) fn from_tool(tool: &Tool) -> Self {
        let schema = tool.input_schema.to_value();
        let empty = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let required = schema.get("required").and_then(Value::as_array);
        let is_required =
            |name: &str| required.is_some_and(|all| all.iter().any(|one| one == name));
        let parameter = |(name, property): (&String, &Value)| ToolParameter {
            name: name.clone(),
            r#type: parameter_type(property),
            description: text_or_empty(property.get("description")),
            required: is_required(name),
            r#enum: property
                .get("enum")
                .and_then(Value::as_array)
                .map(|all| all.iter().map(enum_text).collect()),
        };
        Self {
            name: tool.name.to_string(),
            description: tool.description.clone(),
            parameters: properties.iter().map(parameter).collect(),
            required_permission: tool.traits.min_level,
        }
    }
}

fn text_or_empty(value: Option<&Value>) -> String {
    value.and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns the first of several types; without a type, guesses it from the schema.
fn parameter_type(property: &Value) -> &'static str {
    let known = |word: &Value| PARAMETER_TYPES.into_iter().find(|kind| word == kind);
    let declared = match property.get("type") {
        Some(Value::Array(words)) => words.iter().find_map(known),
        Some(word) => known(word),
        None => None,
    };
    let looks = || match () {
        () if property.get("properties").is_some() => "object",
        () if property.get("items").is_some() => "array",
        () => "string",
    };
    declared.unwrap_or_else(looks)
}

/// Converts an enum value to text, the only form the format allows.
fn enum_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::PermissionLevel;

    use super::ToolDefinition;

    fn definition(schema: &serde_json::Value) -> serde_json::Value {
        let mut tool = testkit::read_only_tool("m.t", "Does it.", schema);
        tool.traits.min_level = PermissionLevel::Admin;
        serde_json::to_value(ToolDefinition::from_tool(&tool)).unwrap()
    }

    #[test]
    fn a_schema_becomes_parameters_in_its_order() {
        let schema = json!({ "type": "object", "required": ["query"], "properties": {
            "query": { "type": "string", "description": "Search query" },
            "max_results": { "type": "integer", "description": "Max results", "enum": [1, 2] },
        } });
        let expected = json!({
            "name": "m.t", "description": "Does it.", "required_permission": "admin",
            "parameters": [
                { "name": "query", "type": "string", "description": "Search query",
                  "required": true, "enum": null },
                { "name": "max_results", "type": "integer", "description": "Max results",
                  "required": false, "enum": ["1", "2"] },
            ],
        });
        assert_eq!(definition(&schema), expected);
    }

    #[test]
    fn every_schema_gives_one_of_the_six_types() {
        let kind = |property: serde_json::Value| {
            let schema = json!({ "type": "object", "properties": { "a": property } });
            definition(&schema)["parameters"][0]["type"].as_str().unwrap().to_owned()
        };
        assert_eq!(kind(json!({ "type": ["null", "number"] })), "number");
        assert_eq!(kind(json!({ "type": "null" })), "string");
        assert_eq!(kind(json!({ "properties": {} })), "object");
        assert_eq!(kind(json!({ "items": {} })), "array");
        assert_eq!(kind(json!(true)), "string");
        assert_eq!(definition(&json!({ "type": "object" }))["parameters"], json!([]));
    }
}
