//! Recognises schemas that certainly compile, because they use known keywords with valid values.
//! Other schemas are compiled to find out.

use serde_json::{Map, Value};

/// Drafts in which every keyword below has the same meaning.
const DRAFTS: [&str; 3] = [
    "https://json-schema.org/draft/2020-12/schema",
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-07/schema#",
];

const TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "array", "object", "null"];

/// Returns true if the schema with this root certainly compiles.
pub(super) fn is_known_valid(root: &Map<String, Value>) -> bool {
    root.iter().all(|(word, value)| match word.as_str() {
        "$schema" => value.as_str().is_some_and(|draft| DRAFTS.contains(&draft)),
        word => is_known_keyword(word, value),
    })
}

fn is_known_subschema(value: &Value) -> bool {
    match value {
        Value::Bool(_) => true,
        Value::Object(words) => words.iter().all(|(word, value)| is_known_keyword(word, value)),
        _ => false,
    }
}

fn is_known_keyword(word: &str, value: &Value) -> bool {
    match word {
        "title" | "description" | "$comment" | "format" => value.is_string(),
        "default" | "const" => true,
        "examples" => value.is_array(),
        "deprecated" | "readOnly" | "writeOnly" | "uniqueItems" => value.is_boolean(),
        "type" => is_known_type(value),
        "enum" => value.as_array().is_some_and(|values| !values.is_empty() && are_distinct(values)),
        "required" => value
            .as_array()
            .is_some_and(|names| names.iter().all(Value::is_string) && are_distinct(names)),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => value.is_number(),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            value.is_u64()
        }
        "properties" => value.as_object().is_some_and(|all| all.values().all(is_known_subschema)),
        "items" | "additionalProperties" | "not" => is_known_subschema(value),
        "anyOf" | "oneOf" | "allOf" => value
            .as_array()
            .is_some_and(|schemas| !schemas.is_empty() && schemas.iter().all(is_known_subschema)),
        _ => false,
    }
}

fn is_known_type(value: &Value) -> bool {
    let known = |kind: &Value| kind.as_str().is_some_and(|kind| TYPES.contains(&kind));
    match value {
        Value::Array(kinds) => !kinds.is_empty() && kinds.iter().all(known) && are_distinct(kinds),
        kind => known(kind),
    }
}

/// Maximum number of values that are compared with each other; longer lists are left to the
/// compiler.
const MAX_DISTINCT_CHECK: usize = 32;

fn are_distinct(values: &[Value]) -> bool {
    let before = |at: usize| values.get(..at).unwrap_or_default();
    values.len() <= MAX_DISTINCT_CHECK
        && values.iter().enumerate().all(|(at, value)| !before(at).contains(value))
}

#[cfg(test)]
mod tests;
