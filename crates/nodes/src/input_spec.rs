//! Spec 4's `input_spec` as JSON Schema.
//!
//! The shorthand names each field's type: `{"text": "string"}`. Nodes of spec 4 never checked it, so
//! what is made of it requires nothing, and a form that is not known permits anything and is told.

use serde_json::{Map, Value, json};
use tool::Json;

/// What was made of an `input_spec`.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    /// JSON Schema; an object.
    pub schema: Json,
    /// Places whose form is not known: anything is taken there.
    pub unknown: Vec<String>,
}

/// How deep shorthand is read; the registry has bounded the document already.
const DEPTH: usize = 32;
/// How many unknown forms are told.
const TOLD: usize = 20;

/// Makes a schema of it.
pub fn schema(spec: &Json) -> Read {
    let value = spec.value();
    let Some(fields) = value.as_object() else {
        let unknown = vec!["the `input_spec` is no object".to_owned()];
        return Read { schema: Json::of(&json!({"type": "object"})), unknown };
    };
    if is_schema(fields) {
        return Read { schema: spec.clone(), unknown: Vec::new() };
    }
    let mut unknown = Vec::new();
    let schema = Json::of(&object(fields, "", 0, &mut unknown));
    unknown.truncate(TOLD);
    Read { schema, unknown }
}

/// Whether it is JSON Schema already, and no field is called `type`.
fn is_schema(fields: &Map<String, Value>) -> bool {
    let object = fields.get("type").and_then(Value::as_str) == Some("object");
    let properties = fields.get("properties").is_none_or(Value::is_object);
    let composed = ["oneOf", "anyOf", "allOf"]
        .iter()
        .any(|word| fields.get(*word).is_some_and(Value::is_array));
    let named = fields.get("$schema").is_some_and(Value::is_string);
    let rest = ["properties", "required", "additionalProperties", "description", "$defs"];
    let says_more = rest.iter().any(|word| fields.contains_key(*word));
    named || composed || (object && properties && (says_more || fields.len() == 1))
}

fn object(
    fields: &Map<String, Value>,
    place: &str,
    depth: usize,
    unknown: &mut Vec<String>,
) -> Value {
    let mut properties = Map::new();
    for (name, spec) in fields {
        let place = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
        properties.insert(name.clone(), field(spec, &place, depth + 1, unknown));
    }
    json!({ "type": "object", "properties": properties })
}

fn field(spec: &Value, place: &str, depth: usize, unknown: &mut Vec<String>) -> Value {
    let mut any = |what: String| {
        if unknown.len() < TOLD {
            unknown.push(format!("`{place}`: {what}; anything is taken"));
        }
        json!({})
    };
    match spec {
        _ if depth > DEPTH => any(format!("it lies deeper than {DEPTH} levels")),
        Value::String(word) => match word_of(word) {
            Some(known) => known,
            None => any(format!("`{}` is no type that is known", shortened(word))),
        },
        Value::Object(inner) => match inner.get("type") {
            // A schema of one field: its type is a word of JSON Schema, or a list of such.
            Some(Value::String(word)) if TYPES.contains(&word.as_str()) => spec.clone(),
            Some(Value::Array(words)) if words.iter().all(Value::is_string) => spec.clone(),
            // The same with a word of another language: what stands beside it stays.
            Some(Value::String(word)) if inner.contains_key("description") => match word_of(word) {
                Some(Value::Object(known)) => {
                    let mut kept = inner.clone();
                    kept.remove("type");
                    kept.extend(known);
                    Value::Object(kept)
                }
                _ => any(format!("`{}` is no type that is known", shortened(word))),
            },
            _ if ["enum", "const", "oneOf", "anyOf", "allOf"]
                .iter()
                .any(|w| inner.contains_key(*w)) =>
            {
                spec.clone()
            }
            _ => object(inner, place, depth, unknown),
        },
        Value::Array(items) => match items.as_slice() {
            [one] => {
                let place = format!("{place}[]");
                json!({ "type": "array", "items": field(one, &place, depth + 1, unknown) })
            }
            _ => any("a list names the one type of its elements".to_owned()),
        },
        Value::Null => json!({}),
        Value::Bool(_) | Value::Number(_) => any(format!("`{spec}` is no type")),
    }
}

/// JSON Schema's own.
const TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "object", "array", "null"];

/// A type by its name, in the languages that nodes are written in.
fn word_of(word: &str) -> Option<Value> {
    let name = match word.trim().to_ascii_lowercase().as_str() {
        "string" | "str" | "text" => "string",
        "integer" | "int" | "i32" | "i64" | "u32" | "u64" | "long" => "integer",
        "number" | "float" | "double" | "f32" | "f64" => "number",
        "boolean" | "bool" => "boolean",
        "object" | "dict" | "map" | "json" => "object",
        "array" | "list" => "array",
        "null" | "none" => "null",
        "any" | "" => return Some(json!({})),
        _ => return None,
    };
    Some(json!({ "type": name }))
}

fn shortened(word: &str) -> String {
    word.chars().take(40).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tool::Json;

    fn read(spec: &Value) -> (Value, Vec<String>) {
        let super::Read { schema, unknown } = super::schema(&Json::of(spec));
        (schema.value(), unknown)
    }

    #[test]
    fn the_shorthand_of_spec_4_becomes_a_schema_that_requires_nothing() {
        let (schema, unknown) =
            read(&json!({ "text": "string", "n": "int", "deep": { "on": "bool" } }));
        assert_eq!(
            schema,
            json!({ "type": "object", "properties": {
                "text": { "type": "string" },
                "n": { "type": "integer" },
                "deep": { "type": "object", "properties": { "on": { "type": "boolean" } } },
            } })
        );
        assert_eq!(unknown, Vec::<String>::new());
        assert_eq!(read(&json!({})).0, json!({ "type": "object", "properties": {} }));
    }

    #[test]
    fn what_is_a_schema_already_is_taken_as_it_is() {
        for schema in [
            json!({ "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] }),
            json!({ "type": "object" }),
            json!({ "$schema": "https://json-schema.org/draft/2020-12/schema" }),
            json!({ "anyOf": [{ "type": "object" }] }),
        ] {
            assert_eq!(read(&schema), (schema.clone(), vec![]));
        }
    }

    #[test]
    fn a_field_that_is_called_type_is_a_field() {
        let (schema, _) = read(&json!({ "type": "string", "name": "string" }));
        assert_eq!(schema["properties"]["type"], json!({ "type": "string" }));
        let (schema, _) = read(&json!({ "type": "object", "name": "string" }));
        assert_eq!(schema["properties"]["name"], json!({ "type": "string" }));
    }

    #[test]
    fn lists_and_schemas_of_single_fields_are_read() {
        let given = json!({
            "tags": ["string"],
            "mode": { "enum": ["a", "b"] },
            "count": { "type": "integer", "minimum": 1 },
            "size": { "type": "float", "description": "In metres." },
        });
        let (schema, unknown) = read(&given);
        assert_eq!(unknown, Vec::<String>::new());
        assert_eq!(
            schema["properties"]["tags"],
            json!({ "type": "array", "items": { "type": "string" } })
        );
        assert_eq!(schema["properties"]["mode"], given["mode"]);
        assert_eq!(schema["properties"]["count"], given["count"]);
        assert_eq!(
            schema["properties"]["size"],
            json!({ "description": "In metres.", "type": "number" })
        );
    }

    #[test]
    fn an_unknown_form_permits_anything_and_is_told() {
        let (schema, unknown) =
            read(&json!({ "at": "datetime", "n": 5, "l": ["a", "b"], "x": null }));
        let any = json!({});
        assert_eq!(schema["properties"], json!({ "at": any, "n": any, "l": any, "x": any }));
        assert_eq!(
            unknown,
            [
                "`at`: `datetime` is no type that is known; anything is taken",
                "`n`: `5` is no type; anything is taken",
                "`l`: a list names the one type of its elements; anything is taken",
            ]
        );
        let many: serde_json::Map<_, _> =
            (0..100).map(|i| (format!("f{i}"), json!("odd"))).collect();
        assert_eq!(read(&Value::Object(many)).1.len(), super::TOLD);
    }
}
