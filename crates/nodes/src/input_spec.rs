//! Spec 4's `input_spec` as JSON Schema.
//!
//! The shorthand names each field's type: `{"text": "string"}`. Nodes of spec 4 never checked it, so a
//! field is required only where it says so: `{"text": {"type": "str", "required": true}}`. A form that is
//! not known permits anything and is reported.

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
    let mut unknown = Vec::new();
    let schema = if is_foreign(fields) {
        return Read { schema: spec.clone(), unknown };
    } else if is_schema(fields) {
        let (mut schema, _) = normalized(fields, "", 0, &mut unknown);
        schema.entry("type").or_insert_with(|| "object".into());
        Value::Object(schema)
    } else {
        object(fields, "", 0, &mut unknown)
    };
    unknown.truncate(TOLD);
    // What is a schema already keeps the bytes that it came with.
    let schema = if schema == value { spec.clone() } else { Json::of(&schema) };
    Read { schema, unknown }
}

/// Words that combine schemas.
const COMPOSED: [&str; 3] = ["oneOf", "anyOf", "allOf"];

/// Whether it is JSON Schema that nothing of the shorthand can be in.
fn is_foreign(fields: &Map<String, Value>) -> bool {
    let composed = COMPOSED.iter().any(|word| fields.get(*word).is_some_and(Value::is_array));
    composed || fields.get("$schema").is_some_and(Value::is_string)
}

/// Whether it is a schema of an object, and not a list of fields of which one is called `type`.
fn is_schema(fields: &Map<String, Value>) -> bool {
    let object = match fields.get("type") {
        Some(word) => word.as_str().is_some_and(|word| named(word) == Some("object")),
        None => false,
    };
    let properties = fields.get("properties");
    let fits = properties.is_none_or(Value::is_object);
    let says_more = REST.iter().any(|word| fields.contains_key(*word));
    let only_known = fields.keys().all(|word| word == "type" || REST.contains(&word.as_str()));
    let bare = properties.is_some_and(|all| all.as_object().is_some_and(is_fields))
        && fields.get("required").is_none_or(Value::is_array);
    (object && fits && (says_more || fields.len() == 1)) || (bare && only_known)
}

/// Words that stand beside the type of an object.
const REST: [&str; 6] =
    ["properties", "required", "additionalProperties", "description", "$defs", "title"];

/// Whether every member may be the schema of a field.
fn is_fields(members: &Map<String, Value>) -> bool {
    members.values().all(|member| member.is_object() || member.is_string() || member.is_array())
}

/// Fields with their types, in the shorthand.
fn object(
    fields: &Map<String, Value>,
    place: &str,
    depth: usize,
    unknown: &mut Vec<String>,
) -> Value {
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    put_fields(&mut schema, fields, (place, depth), unknown);
    Value::Object(schema)
}

/// Puts `properties` into a schema, and adds the fields that say that they are required.
fn put_fields(
    schema: &mut Map<String, Value>,
    fields: &Map<String, Value>,
    (place, depth): (&str, usize),
    unknown: &mut Vec<String>,
) {
    let mut required = match schema.get("required") {
        Some(Value::Array(names)) => names.clone(),
        _ => Vec::new(),
    };
    let mut properties = Map::new();
    for (name, spec) in fields {
        let place = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
        let (field, is_required) = field(spec, &place, depth + 1, unknown);
        if is_required && !required.iter().any(|known| known == name) {
            required.push(name.as_str().into());
        }
        properties.insert(name.clone(), field);
    }
    schema.insert("properties".to_owned(), Value::Object(properties));
    if !required.is_empty() {
        schema.insert("required".to_owned(), Value::Array(required));
    }
}

/// The schema of one field, and whether it says that it is required.
fn field(spec: &Value, place: &str, depth: usize, unknown: &mut Vec<String>) -> (Value, bool) {
    let any = |what: String, unknown: &mut Vec<String>| {
        if unknown.len() < TOLD {
            unknown.push(format!("`{place}`: {what}; anything is taken"));
        }
        (json!({}), false)
    };
    match spec {
        _ if depth > DEPTH => any(format!("it lies deeper than {DEPTH} levels"), unknown),
        Value::String(word) => match word_of(word) {
            Some(known) => (known, false),
            None => any(format!("`{}` is no type that is known", shortened(word)), unknown),
        },
        Value::Object(inner) if is_field(inner) => {
            let (schema, is_required) = normalized(inner, place, depth, unknown);
            (Value::Object(schema), is_required)
        }
        Value::Object(inner) => (object(inner, place, depth, unknown), false),
        Value::Array(items) => match items.as_slice() {
            [one] => {
                let place = format!("{place}[]");
                let (items, _) = field(one, &place, depth + 1, unknown);
                (json!({ "type": "array", "items": items }), false)
            }
            _ => any("a list names the one type of its elements".to_owned(), unknown),
        },
        Value::Null => (json!({}), false),
        Value::Bool(_) | Value::Number(_) => any(format!("`{spec}` is no type"), unknown),
    }
}

/// Words that stand beside the type of one field.
const BESIDE: [&str; 22] = [
    "required",
    "description",
    "default",
    "enum",
    "choices",
    "min",
    "max",
    "minimum",
    "maximum",
    "items",
    "properties",
    "format",
    "pattern",
    "title",
    "example",
    "examples",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "additionalProperties",
    "nullable",
];

/// Whether this is the schema of one field, and not the fields of an object.
fn is_field(inner: &Map<String, Value>) -> bool {
    let composed = ["enum", "const", "$ref"].iter().chain(&COMPOSED);
    match inner.get("type") {
        Some(Value::String(word)) if TYPES.contains(&word.as_str()) => true,
        Some(Value::String(_)) if inner.contains_key("description") => true,
        Some(Value::String(word)) => {
            let beside = |key: &String| key == "type" || BESIDE.contains(&key.as_str());
            word_of(word).is_some() && inner.keys().all(beside)
        }
        Some(Value::Array(words)) => words.iter().all(Value::is_string),
        _ => {
            let marked = inner.get("required").is_some_and(Value::is_boolean);
            marked || composed.into_iter().any(|word| inner.contains_key(*word))
        }
    }
}

/// A schema in which types of other languages, `required` beside a type and the spec's own words `min`,
/// `max` and `choices` are JSON Schema's; all else stays. And whether it says that it is required itself.
fn normalized(
    given: &Map<String, Value>,
    place: &str,
    depth: usize,
    unknown: &mut Vec<String>,
) -> (Map<String, Value>, bool) {
    let mut schema = given.clone();
    let mut is_required = false;
    if let Some(Value::Bool(required)) = given.get("required") {
        is_required = *required;
        schema.remove("required");
    }
    if let Some(Value::String(word)) = given.get("type")
        && !TYPES.contains(&word.as_str())
    {
        schema.remove("type");
        match word_of(word) {
            Some(Value::Object(known)) => schema.extend(known),
            _ if unknown.len() < TOLD => {
                let told = format!("`{}` is no type that is known", shortened(word));
                unknown.push(format!("`{place}`: {told}; anything is taken"));
            }
            _ => {}
        }
    }
    for (own, word) in [("min", "minimum"), ("max", "maximum"), ("choices", "enum")] {
        let fits =
            |value: &Value| if word == "enum" { value.is_array() } else { value.is_number() };
        if given.get(own).is_some_and(fits)
            && !given.contains_key(word)
            && let Some(value) = schema.remove(own)
        {
            schema.insert(word.to_owned(), value);
        }
    }
    if depth > DEPTH {
        return (schema, is_required);
    }
    if let Some(items) = given.get("items").filter(|items| items.is_object() || items.is_string()) {
        let (items, _) = field(items, &format!("{place}[]"), depth + 1, unknown);
        schema.insert("items".to_owned(), items);
    }
    if let Some(Value::Object(fields)) = given.get("properties") {
        put_fields(&mut schema, fields, (place, depth), unknown);
    }
    (schema, is_required)
}

/// JSON Schema's own.
const TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "object", "array", "null"];

/// A type by its name, in the languages that nodes are written in: also `list[str]` and `Optional[int]`.
fn word_of(word: &str) -> Option<Value> {
    let word = word.trim();
    if let Some((outer, inner)) = word.strip_suffix(']').and_then(|word| word.split_once('[')) {
        return match outer.trim().to_ascii_lowercase().as_str() {
            "list" | "array" | "set" | "tuple" | "sequence" => {
                Some(json!({ "type": "array", "items": plain(inner)? }))
            }
            "dict" | "map" | "mapping" => Some(json!({ "type": "object" })),
            "optional" => {
                let inner = plain(inner)?;
                Some(json!({ "type": [inner.get("type")?, "null"] }))
            }
            _ => None,
        };
    }
    plain(word)
}

/// A type by one word.
fn plain(word: &str) -> Option<Value> {
    match word.trim().to_ascii_lowercase().as_str() {
        "any" | "" => Some(json!({})),
        _ => Some(json!({ "type": named(word)? })),
    }
}

/// JSON Schema's name of a type.
fn named(word: &str) -> Option<&'static str> {
    Some(match word.trim().to_ascii_lowercase().as_str() {
        "string" | "str" | "text" => "string",
        "integer" | "int" | "i32" | "i64" | "u32" | "u64" | "long" => "integer",
        "number" | "float" | "double" | "f32" | "f64" => "number",
        "boolean" | "bool" => "boolean",
        "object" | "dict" | "map" | "json" => "object",
        "array" | "list" | "tuple" | "set" => "array",
        "null" | "none" => "null",
        _ => return None,
    })
}

fn shortened(word: &str) -> String {
    word.chars().take(40).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests;
