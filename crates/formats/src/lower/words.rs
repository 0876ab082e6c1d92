//! The keywords of JSON Schema, and how one is told to a model that its provider's schema cannot.

use serde_json::{Map, Value};

/// The longest text of a keyword in a description, in bytes; longer ones are dropped.
const TOLD: usize = 300;

/// Whether a keyword says what arguments must be, so that a model should hear of it.
pub(super) fn binds(keyword: &str) -> bool {
    matches!(
        keyword,
        "minimum"
            | "maximum"
            | "exclusiveMinimum"
            | "exclusiveMaximum"
            | "multipleOf"
            | "minLength"
            | "maxLength"
            | "pattern"
            | "format"
            | "minItems"
            | "maxItems"
            | "uniqueItems"
            | "contains"
            | "minContains"
            | "maxContains"
            | "minProperties"
            | "maxProperties"
            | "patternProperties"
            | "propertyNames"
            | "dependentRequired"
            | "dependentSchemas"
            | "dependencies"
            | "not"
            | "if"
            | "then"
            | "else"
            | "const"
            | "enum"
            | "default"
            | "examples"
            | "example"
            | "additionalProperties"
            | "anyOf"
            | "oneOf"
            | "allOf"
            | "required"
            | "contentEncoding"
            | "contentMediaType"
            | "prefixItems"
            | "type"
    )
}

/// How `keyword` is told; `None` where it says nothing, or too much.
pub(super) fn told(keyword: &str, value: &Value) -> Option<String> {
    // Whether more is allowed is little to a model that is shown what there is.
    let little = keyword == "additionalProperties" && value.is_boolean()
        || keyword == "default" && value.is_null();
    if little || !binds(keyword) {
        return None;
    }
    let text = format!("{keyword}: {value}");
    (text.len() <= TOLD).then_some(text)
}

/// Adds what is told to a description.
pub(super) fn describe(map: &mut Map<String, Value>, told: &[String]) {
    if told.is_empty() {
        return;
    }
    let told = told.join(", ");
    let text = match map.get("description").and_then(Value::as_str) {
        Some(text) if !text.trim().is_empty() => format!("{} ({told})", text.trim_end()),
        _ => told,
    };
    map.insert("description".to_owned(), Value::String(text));
}

/// Whether a schema names this type, alone or among others.
pub(super) fn is(map: &Map<String, Value>, kind: &str) -> bool {
    match map.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(|one| one == kind),
        one => one.is_some_and(|one| one == kind),
    }
}

/// The type of a value, as a schema names it.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
