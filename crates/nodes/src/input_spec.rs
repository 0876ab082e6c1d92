//! Converts the `input_spec` of the cluster tools to JSON Schema.
//!
//! The shorthand names the type of each field: `{"text": "string"}`. Nodes of the cluster tools do
//! not validate it, so a field is required only if it says so: `{"text": {"type": "str",
//! "required": true}}`. An unknown form permits anything and is reported.

use serde_json::{Map, Value, json};
use tool::Json;
use tool::display_text::truncate_and_escape_debug;

/// The JSON Schema of an `input_spec`, and the places that could not be converted.
#[derive(Debug, Clone, PartialEq)]
pub struct SchemaConversion {
    /// The JSON Schema, an object.
    pub schema: Json,
    /// Places with an unknown form, where anything is accepted.
    pub warnings: Vec<String>,
}

/// Maximum depth of shorthand. The registry has limited the document already.
const MAX_DEPTH: usize = 32;
/// Maximum number of reported unknown forms.
const MAX_WARNINGS: usize = 20;

/// Converts an `input_spec` to JSON Schema.
pub fn to_json_schema(spec: &Json) -> SchemaConversion {
    let value = spec.to_value();
    let Some(fields) = value.as_object() else {
        let unknown = vec!["the `input_spec` is not an object".to_owned()];
        return SchemaConversion {
            schema: Json::encode(&json!({"type": "object"})),
            warnings: unknown,
        };
    };
    let mut unknown = Vec::new();
    let schema = if is_plain_json_schema(fields) {
        return SchemaConversion { schema: spec.clone(), warnings: unknown };
    } else if is_object_schema(fields) {
        let (mut schema, _) = normalize_schema(fields, "", 0, &mut unknown);
        schema.entry("type").or_insert_with(|| "object".into());
        Value::Object(schema)
    } else {
        convert_object(fields, "", 0, &mut unknown)
    };
    unknown.truncate(MAX_WARNINGS);
    // An unchanged schema keeps its original bytes.
    let schema = if schema == value { spec.clone() } else { Json::encode(&schema) };
    SchemaConversion { schema, warnings: unknown }
}

/// The keywords that combine schemas.
const COMPOSITION_KEYWORDS: [&str; 3] = ["oneOf", "anyOf", "allOf"];

/// Whether the value is JSON Schema that cannot contain shorthand.
fn is_plain_json_schema(fields: &Map<String, Value>) -> bool {
    let composed =
        COMPOSITION_KEYWORDS.iter().any(|word| fields.get(*word).is_some_and(Value::is_array));
    composed || fields.get("$schema").is_some_and(Value::is_string)
}

/// Whether the value is the schema of an object, and not a list of fields with one named `type`.
fn is_object_schema(fields: &Map<String, Value>) -> bool {
    let is_object = match fields.get("type") {
        Some(word) => word.as_str().is_some_and(|word| json_type_name(word) == Some("object")),
        None => false,
    };
    let properties = fields.get("properties");
    let has_valid_properties = properties.is_none_or(Value::is_object);
    let has_keywords = OBJECT_KEYWORDS.iter().any(|word| fields.contains_key(*word));
    let has_only_keywords =
        fields.keys().all(|word| word == "type" || OBJECT_KEYWORDS.contains(&word.as_str()));
    let is_untyped = properties.is_some_and(|all| all.as_object().is_some_and(are_field_schemas))
        && fields.get("required").is_none_or(Value::is_array);
    (is_object && has_valid_properties && (has_keywords || fields.len() == 1))
        || (is_untyped && has_only_keywords)
}

/// The keywords that occur beside the type of an object.
const OBJECT_KEYWORDS: [&str; 6] =
    ["properties", "required", "additionalProperties", "description", "$defs", "title"];

/// Whether every member may be the schema of a field.
fn are_field_schemas(members: &Map<String, Value>) -> bool {
    members.values().all(|member| member.is_object() || member.is_string() || member.is_array())
}

/// Converts fields with their types from shorthand.
fn convert_object(
    fields: &Map<String, Value>,
    place: &str,
    depth: usize,
    warnings: &mut Vec<String>,
) -> Value {
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    insert_fields(&mut schema, fields, (place, depth), warnings);
    Value::Object(schema)
}

/// Inserts `properties` into a schema, and adds required fields to `required`.
fn insert_fields(
    schema: &mut Map<String, Value>,
    fields: &Map<String, Value>,
    (place, depth): (&str, usize),
    warnings: &mut Vec<String>,
) {
    let mut required = match schema.get("required") {
        Some(Value::Array(names)) => names.clone(),
        _ => Vec::new(),
    };
    let mut properties = Map::new();
    for (name, spec) in fields {
        let place = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
        let (field, is_required) = convert_field(spec, &place, depth + 1, warnings);
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

/// Returns the schema of one field, and whether the field is required.
fn convert_field(
    spec: &Value,
    place: &str,
    depth: usize,
    warnings: &mut Vec<String>,
) -> (Value, bool) {
    let any = |what: String, unknown: &mut Vec<String>| {
        if unknown.len() < MAX_WARNINGS {
            unknown.push(format!("`{place}`: {what}"));
        }
        (json!({}), false)
    };
    match spec {
        _ if depth > MAX_DEPTH => {
            any(format!("it is nested deeper than {MAX_DEPTH} levels"), warnings)
        }
        Value::String(word) => match parse_type_name(word) {
            Some(known) => (known, false),
            None => any(format!("unknown type `{}`", truncate_word(word)), warnings),
        },
        Value::Object(inner) if is_field_schema(inner) => {
            let (schema, is_required) = normalize_schema(inner, place, depth, warnings);
            (Value::Object(schema), is_required)
        }
        Value::Object(inner) => (convert_object(inner, place, depth, warnings), false),
        Value::Array(items) => match items.as_slice() {
            [one] => {
                let place = format!("{place}[]");
                let (items, _) = convert_field(one, &place, depth + 1, warnings);
                (json!({ "type": "array", "items": items }), false)
            }
            _ => any(
                "a list must contain exactly one type, that of its \
                elements"
                    .to_owned(),
                warnings,
            ),
        },
        Value::Null => (json!({}), false),
        Value::Bool(_) | Value::Number(_) => any(format!("`{spec}` is not a type"), warnings),
    }
}

/// The keywords that occur beside the type of one field.
const FIELD_KEYWORDS: [&str; 22] = [
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

/// Whether the value is the schema of one field, and not the fields of an object.
fn is_field_schema(inner: &Map<String, Value>) -> bool {
    let composed = ["enum", "const", "$ref"].iter().chain(&COMPOSITION_KEYWORDS);
    match inner.get("type") {
        Some(Value::String(word)) if JSON_TYPES.contains(&word.as_str()) => true,
        Some(Value::String(_)) if inner.contains_key("description") => true,
        Some(Value::String(word)) => {
            let is_known_keyword =
                |key: &String| key == "type" || FIELD_KEYWORDS.contains(&key.as_str());
            parse_type_name(word).is_some() && inner.keys().all(is_known_keyword)
        }
        Some(Value::Array(words)) => words.iter().all(Value::is_string),
        _ => {
            let has_required_flag = inner.get("required").is_some_and(Value::is_boolean);
            has_required_flag || composed.into_iter().any(|word| inner.contains_key(*word))
        }
    }
}

/// Replaces types of other languages, `required` beside a type, and the keywords `min`, `max` and
/// `choices` of the spec with JSON Schema. Returns the schema, and whether it is marked as
/// required.
fn normalize_schema(
    source: &Map<String, Value>,
    place: &str,
    depth: usize,
    warnings: &mut Vec<String>,
) -> (Map<String, Value>, bool) {
    let mut schema = source.clone();
    let mut is_required = false;
    if let Some(Value::Bool(required)) = source.get("required") {
        is_required = *required;
        schema.remove("required");
    }
    if let Some(Value::String(word)) = source.get("type")
        && !JSON_TYPES.contains(&word.as_str())
    {
        schema.remove("type");
        match parse_type_name(word) {
            Some(Value::Object(known)) => schema.extend(known),
            _ if warnings.len() < MAX_WARNINGS => {
                warnings.push(format!("`{place}`: unknown type `{}`", truncate_word(word)));
            }
            _ => {}
        }
    }
    for (spec_keyword, word) in [("min", "minimum"), ("max", "maximum"), ("choices", "enum")] {
        let fits =
            |value: &Value| if word == "enum" { value.is_array() } else { value.is_number() };
        if source.get(spec_keyword).is_some_and(fits)
            && !source.contains_key(word)
            && let Some(value) = schema.remove(spec_keyword)
        {
            schema.insert(word.to_owned(), value);
        }
    }
    if depth > MAX_DEPTH {
        return (schema, is_required);
    }
    if let Some(items) = source.get("items").filter(|items| items.is_object() || items.is_string())
    {
        let (items, _) = convert_field(items, &format!("{place}[]"), depth + 1, warnings);
        schema.insert("items".to_owned(), items);
    }
    if let Some(Value::Object(fields)) = source.get("properties") {
        insert_fields(&mut schema, fields, (place, depth), warnings);
    }
    (schema, is_required)
}

/// The type names of JSON Schema.
const JSON_TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "object", "array", "null"];

/// Parses a type name of the languages that nodes use, such as `list[str]` and `Optional[int]`.
fn parse_type_name(word: &str) -> Option<Value> {
    let word = word.trim();
    if let Some((outer, inner)) = word.strip_suffix(']').and_then(|word| word.split_once('[')) {
        return match outer.trim().to_ascii_lowercase().as_str() {
            "list" | "array" | "set" | "tuple" | "sequence" => {
                Some(json!({ "type": "array", "items": parse_simple_type(inner)? }))
            }
            "dict" | "map" | "mapping" => Some(json!({ "type": "object" })),
            "optional" => {
                let inner = parse_simple_type(inner)?;
                Some(json!({ "type": [inner.get("type")?, "null"] }))
            }
            _ => None,
        };
    }
    parse_simple_type(word)
}

/// Parses a type name of one word.
fn parse_simple_type(word: &str) -> Option<Value> {
    match word.trim().to_ascii_lowercase().as_str() {
        "any" | "" => Some(json!({})),
        _ => Some(json!({ "type": json_type_name(word)? })),
    }
}

/// Returns the JSON Schema name of a type.
fn json_type_name(word: &str) -> Option<&'static str> {
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

fn truncate_word(word: &str) -> String {
    truncate_and_escape_debug(word, 40)
}

#[cfg(test)]
mod tests;
