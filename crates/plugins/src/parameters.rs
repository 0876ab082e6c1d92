//! Parameters as spec 3 writes them, as JSON Schema.

use serde_json::{Map, Value, json};

use crate::manifest::{Faults, shown};

/// Most parameters of one tool.
const MOST: usize = 100;
/// What a parameter may say beside `type` and `required`, and what is taken over as it is.
const KEPT: [&str; 12] = [
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

/// The schema of `parameters`: spec 3's map of names, or JSON Schema itself. What is not named is refused
/// in calls (spec 3), unless a JSON Schema says otherwise.
pub(crate) fn schema(parameters: &Map<String, Value>, faults: &mut Faults) -> Value {
    let is_schema = parameters.get("type").and_then(Value::as_str) == Some("object");
    if is_schema {
        let mut schema = parameters.clone();
        schema.entry("additionalProperties").or_insert(Value::Bool(false));
        return Value::Object(schema);
    }
    if parameters.len() > MOST {
        faults.tell(format!("'parameters' has {} entries, {MOST} are allowed", parameters.len()));
    }
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for (name, parameter) in parameters.iter().take(MOST) {
        let Some(fields) = parameter.as_object() else {
            faults.tell(format!("parameter `{}` must be an object", shown(name)));
            continue;
        };
        if fields.get("required") == Some(&Value::Bool(true)) {
            required.push(name.clone());
        }
        properties.insert(name.clone(), property(name, fields, faults));
    }
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// One parameter. `any`, and none, is any type.
pub(crate) fn property(name: &str, fields: &Map<String, Value>, faults: &mut Faults) -> Value {
    let mut property = Map::new();
    let word = fields.get("type").cloned().unwrap_or_else(|| Value::from("any"));
    match word.as_str() {
        Some("any") => {}
        Some(word @ ("string" | "integer" | "number" | "boolean" | "array" | "object")) => {
            property.insert("type".to_owned(), Value::from(word));
        }
        _ => faults.tell(format!(
            "parameter `{}`: 'type' {} is none of string, integer, number, boolean, array, object, any",
            shown(name),
            shown(&word.to_string())
        )),
    }
    for key in KEPT {
        if let Some(value) = fields.get(key) {
            property.insert(key.to_owned(), value.clone());
        }
    }
    Value::Object(property)
}

/// Names that a schema lets in, those that it requires, and whether it lets in others too.
pub(crate) fn names(schema: &Value) -> (Vec<String>, Vec<String>, bool) {
    let texts = |list: &Vec<Value>| {
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    let named = properties.map(|all| all.keys().cloned().collect()).unwrap_or_default();
    let required = schema.get("required").and_then(Value::as_array).map(texts).unwrap_or_default();
    let open = schema.get("additionalProperties") != Some(&Value::Bool(false));
    (named, required, open)
}
