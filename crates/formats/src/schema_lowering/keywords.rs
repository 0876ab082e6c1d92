//! JSON Schema keywords, and text notes about those that a provider's schema cannot express.

use serde_json::{Map, Value};

/// The longest text of a keyword in a description, in bytes; longer ones are dropped.
const MAX_KEYWORD_TEXT_BYTES: usize = 300;

/// Returns whether a keyword constrains arguments, so that a model should know it.
pub(super) fn constrains_arguments(keyword: &str) -> bool {
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

/// Returns the note for `keyword`; `None` if it has no information or is too long.
pub(super) fn keyword_note(keyword: &str, value: &Value) -> Option<String> {
    // The listed properties suffice for a model; whether others are allowed matters little.
    let little = keyword == "additionalProperties" && value.is_boolean()
        || keyword == "default" && value.is_null();
    if little || !constrains_arguments(keyword) {
        return None;
    }
    let text = format!("{keyword}: {value}");
    (text.len() <= MAX_KEYWORD_TEXT_BYTES).then_some(text)
}

/// Appends notes to the description of a schema.
pub(super) fn append_notes(map: &mut Map<String, Value>, notes: &[String]) {
    if notes.is_empty() {
        return;
    }
    let told = notes.join(", ");
    let text = match map.get("description").and_then(Value::as_str) {
        Some(text) if !text.trim().is_empty() => format!("{} ({told})", text.trim_end()),
        _ => told,
    };
    map.insert("description".to_owned(), Value::String(text));
}

/// Whether a schema names this type, alone or among others.
pub(super) fn has_type(map: &Map<String, Value>, kind: &str) -> bool {
    match map.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(|one| one == kind),
        one => one.is_some_and(|one| one == kind),
    }
}

/// The type of a value, as a schema names it.
pub(super) fn type_of_value(value: &Value) -> &'static str {
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
