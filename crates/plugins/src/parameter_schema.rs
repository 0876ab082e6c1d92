//! Conversion of the research registry's parameters to JSON Schema.

use serde_json::{Map, Value, json};

use crate::manifest::{FieldErrors, escape_for_message};

/// Most parameters of one tool.
const MAX_PARAMETERS: usize = 100;
/// Keywords that are copied from a parameter to its schema unchanged.
const COPIED_KEYWORDS: [&str; 12] = [
    "description",
    "default",
    "enum",
    "pattern",
    "minimum",
    "maximum",
    "items",
    "properties",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
];

/// Converts `parameters` to a schema: the research registry's map of names, or JSON Schema. Calls
/// with other arguments are rejected (research registry), unless a JSON Schema allows them.
pub(crate) fn to_json_schema(parameters: &Map<String, Value>, errors: &mut FieldErrors) -> Value {
    let is_schema = parameters.get("type").and_then(Value::as_str) == Some("object");
    if is_schema {
        let mut schema = parameters.clone();
        schema.entry("additionalProperties").or_insert(Value::Bool(false));
        return Value::Object(schema);
    }
    if parameters.len() > MAX_PARAMETERS {
        errors.push_error(format!(
            "'parameters' has {} entries; the maximum is {MAX_PARAMETERS}",
            parameters.len()
        ));
    }
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for (name, parameter) in parameters.iter().take(MAX_PARAMETERS) {
        let Some(fields) = parameter.as_object() else {
            errors
                .push_error(format!("parameter `{}` must be an object", escape_for_message(name)));
            continue;
        };
        if fields.get("required") == Some(&Value::Bool(true)) {
            required.push(name.clone());
        }
        properties.insert(name.clone(), to_property_schema(name, fields, errors));
    }
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// Converts one parameter to a schema. `any`, or no type, allows every type.
pub(crate) fn to_property_schema(
    name: &str,
    fields: &Map<String, Value>,
    errors: &mut FieldErrors,
) -> Value {
    let mut property = Map::new();
    let word = fields.get("type").cloned().unwrap_or_else(|| Value::from("any"));
    match word.as_str() {
        Some("any") => {}
        Some(word @ ("string" | "integer" | "number" | "boolean" | "array" | "object")) => {
            property.insert("type".to_owned(), Value::from(word));
        }
        _ => errors.push_error(format!(
            "parameter `{}`: unknown 'type' {}; use one of string, integer, number, boolean, \
             array, object, any",
            escape_for_message(name),
            escape_for_message(&word.to_string())
        )),
    }
    for key in COPIED_KEYWORDS {
        if let Some(value) = fields.get(key) {
            property.insert(key.to_owned(), value.clone());
        }
    }
    Value::Object(property)
}

/// Names of the parameters in a schema.
pub(crate) struct ParameterNames {
    pub(crate) declared: Vec<String>,
    pub(crate) required: Vec<String>,
    /// Whether the schema allows undeclared parameters.
    pub(crate) allows_others: bool,
}

/// Returns the names of a schema's parameters.
pub(crate) fn parameter_names(schema: &Value) -> ParameterNames {
    let texts = |list: &Vec<Value>| {
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    let declared = properties.map(|all| all.keys().cloned().collect()).unwrap_or_default();
    let required = schema.get("required").and_then(Value::as_array).map(texts).unwrap_or_default();
    let allows_others = schema.get("additionalProperties") != Some(&Value::Bool(false));
    ParameterNames { declared, required, allows_others }
}
