use serde_json::{Value, json};
use tool::Json;

use super::{EntryFields, parse_parameters};

fn schema(parameters: &Value) -> Result<Value, String> {
    let fields = EntryFields::from_object(&Json::encode(&json!({ "parameters": parameters })));
    parse_parameters("t", &fields).map(|schema| schema.to_value()).map_err(|fault| fault.message)
}

#[test]
fn the_research_registry_mapping_becomes_json_schema() {
    let parameters = json!({
        "path": {"type": "string", "required": true, "description": "Where."},
        "limit": {"type": "integer", "default": 10, "minimum": 1},
        "type": {"type": "any"},
    });
    let expected = json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where."},
            "limit": {"type": "integer", "default": 10, "minimum": 1},
            "type": {},
        },
        "required": ["path"],
        "additionalProperties": false,
    });
    assert_eq!(schema(&parameters).unwrap(), expected);
}

#[test]
fn an_empty_mapping_is_a_tool_without_parameters() {
    let expected =
        json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false});
    assert_eq!(schema(&json!({})).unwrap(), expected);
    // A schema that does not say what it is of is still refused.
    schema(&json!({"properties": {"a": {"type": "string"}}})).unwrap_err();
}

#[test]
fn a_schema_of_an_object_stays_as_it_is() {
    for parameters in [
        json!({"type": "object"}),
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
    ] {
        assert_eq!(schema(&parameters).unwrap(), parameters);
    }
}

#[test]
fn an_unknown_type_is_told_with_its_place() {
    let told = schema(&json!({"a": {"type": "text"}})).unwrap_err();
    assert_eq!(told, "`parameters.a.type` is `text`");
    let told = schema(&json!({"a": {"type": "string", "required": "yes"}})).unwrap_err();
    assert!(told.contains("`required`"), "{told}");
}
