use proptest::prelude::*;
use serde_json::{Value, json};

use super::is_known_valid;
use crate::input_schema::compile_validator;

fn sure(schema: &Value) -> bool {
    is_known_valid(schema.as_object().unwrap())
}

/// The words of the list with values that may be wrong, and words that are not in it.
#[expect(clippy::too_many_lines, reason = "one line for each keyword")]
fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!("string")),
        Just(json!("object")),
        Just(json!("dict")),
        Just(json!(["string", "null"])),
        Just(json!(["string", "string"])),
        Just(json!([])),
        Just(json!(["a", "b"])),
        Just(json!(3)),
        Just(json!(-1)),
        Just(json!(1.5)),
        Just(json!(2.0)),
        Just(json!(true)),
        Just(json!({})),
        Just(json!(null)),
        Just(json!("#/$defs/x")),
        Just(json!("(?=x)")),
        Just(json!("http://json-schema.org/draft-07/schema#")),
        Just(json!("http://json-schema.org/draft-04/schema#")),
    ];
    let word = prop::sample::select(vec![
        "title",
        "description",
        "$comment",
        "format",
        "default",
        "const",
        "examples",
        "deprecated",
        "uniqueItems",
        "type",
        "enum",
        "required",
        "minimum",
        "exclusiveMinimum",
        "minLength",
        "maxItems",
        "properties",
        "items",
        "additionalProperties",
        "not",
        "anyOf",
        "oneOf",
        "$schema",
        "$ref",
        "$id",
        "id",
        "pattern",
        "patternProperties",
        "multipleOf",
        "definitions",
        "if",
        "dependencies",
        "$defs",
        "contains",
        "propertyNames",
        "x-own",
    ]);
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            3 => prop::collection::vec((word.clone(), inner.clone()), 0..4)
                .prop_map(|all| all.into_iter().map(|(w, v)| (w.to_owned(), v)).collect()),
            1 => prop::collection::vec(inner, 0..3).prop_map(Value::Array),
        ]
    })
    .prop_filter_map("an object", |schema| schema.is_object().then_some(schema))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    /// Whoever is listed without being compiled compiles at the first call.
    #[test]
    fn what_is_sure_to_compile_compiles(schema in any_schema()) {
        if sure(&schema) {
            prop_assert!(compile_validator(&schema).is_ok(), "{schema}: {:?}", compile_validator(&schema).err());
        }
    }
}

#[test]
fn the_usual_is_sure_and_what_may_fail_is_not() {
    for (schema, expected) in [
        (json!({}), true),
        (
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
            "properties": {"a": {"type": ["string", "null"], "enum": ["x", null]},
                "b": {"type": "array", "items": {"anyOf": [{"type": "integer", "minimum": 1}]}}},
            "required": ["a"], "additionalProperties": false}),
            true,
        ),
        (json!({"$schema": "https://example.com/own"}), false),
        (json!({"properties": {"a": {"$ref": "#/$defs/a"}}}), false),
        (json!({"properties": {"a": {"pattern": "(?=x)"}}}), false),
        (json!({"properties": {"a": {"type": "dict"}}}), false),
        (json!({"required": ["a", "a"]}), false),
        (json!({"properties": {"a": {"minLength": -1}}}), false),
        (json!({"items": [{}]}), false),
    ] {
        assert_eq!(sure(&schema), expected, "{schema}");
    }
}
