//! Tests of the forms of `input_spec`.

use serde_json::{Value, json};
use tool::Json;

fn read(spec: &Value) -> (Value, Vec<String>) {
    let super::SchemaConversion { schema, warnings: unknown } =
        super::to_json_schema(&Json::encode(spec));
    (schema.to_value(), unknown)
}

#[test]
fn the_cluster_tools_shorthand_becomes_a_schema_that_requires_nothing() {
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
fn a_spec_as_people_write_it_requires_what_it_says() {
    let (schema, unknown) = read(&json!({
        "text": { "type": "str", "required": true, "description": "What to turn round." },
        "n": { "type": "int", "required": true },
        "ratio": { "type": "float", "required": false, "min": 0, "max": 1 },
        "on": { "type": "bool", "default": false },
        "tags": { "type": "list", "items": "str" },
        "more": { "type": "dict", "properties": { "a": { "type": "int", "required": true } } },
        "names": "list[str]",
        "note": "Optional[str]",
        "mode": { "type": "string", "choices": ["a", "b"] },
    }));
    assert_eq!(unknown, Vec::<String>::new());
    assert_eq!(
        schema,
        json!({ "type": "object", "required": ["text", "n"], "properties": {
            "text": { "type": "string", "description": "What to turn round." },
            "n": { "type": "integer" },
            "ratio": { "type": "number", "minimum": 0, "maximum": 1 },
            "on": { "type": "boolean", "default": false },
            "tags": { "type": "array", "items": { "type": "string" } },
            "more": { "type": "object", "required": ["a"],
                "properties": { "a": { "type": "integer" } } },
            "names": { "type": "array", "items": { "type": "string" } },
            "note": { "type": ["string", "null"] },
            "mode": { "type": "string", "enum": ["a", "b"] },
        } })
    );
    // The same within a schema, with or without its type.
    let fields = json!({ "n": { "type": "int", "required": true }, "t": "str" });
    let expected = json!({ "type": "object", "required": ["n"],
        "properties": { "n": { "type": "integer" }, "t": { "type": "string" } } });
    for outer in ["object", "dict"] {
        assert_eq!(read(&json!({ "type": outer, "properties": fields })).0, expected);
    }
    let bare = json!({ "properties": fields, "required": ["t"] });
    assert_eq!(read(&bare).0["required"], json!(["t", "n"]));
    // Positive control: fields that have such names are fields.
    let fields = json!({ "box": { "type": "str", "weight": "float" }, "properties": "str" });
    let (schema, _) = read(&fields);
    assert_eq!(schema["properties"]["box"]["properties"]["type"], json!({ "type": "string" }));
    assert_eq!(schema["properties"]["properties"], json!({ "type": "string" }));
    assert_eq!(schema.get("required"), None);
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
    let (schema, unknown) = read(&json!({ "at": "datetime", "n": 5, "l": ["a", "b"], "x": null }));
    let any = json!({});
    assert_eq!(schema["properties"], json!({ "at": any, "n": any, "l": any, "x": any }));
    assert_eq!(
        unknown,
        [
            "`at`: unknown type `datetime`",
            "`n`: `5` is not a type",
            "`l`: a list must contain exactly one type, that of its elements",
        ]
    );
    let many: serde_json::Map<_, _> = (0..100).map(|i| (format!("f{i}"), json!("odd"))).collect();
    assert_eq!(read(&Value::Object(many)).1.len(), super::MAX_WARNINGS);
}
