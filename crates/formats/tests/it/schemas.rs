//! Any schema at all, at every provider.

use formats::{LossKind, ProviderFormat, render_tool};
use proptest::prelude::*;
use serde_json::{Value, json};
use tool::{Json, Tool, ToolName, ToolTraits};

use crate::oracle;

pub(crate) fn tool(input: &Value) -> Tool {
    Tool {
        name: ToolName::new("t").unwrap(),
        title: None,
        description: "d".to_owned(),
        input_schema: Json::encode(input),
        output_schema: None,
        traits: ToolTraits::default(),
        raw_definition: Json::empty_object(),
    }
}

fn words() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!("string")),
        Just(json!("integer")),
        Just(json!("number")),
        Just(json!("boolean")),
        Just(json!("array")),
        Just(json!("object")),
        Just(json!("null")),
        Just(json!(["string", "null"])),
        Just(json!(["integer", "string"])),
        Just(json!("float")),
        Just(json!(7)),
    ]
}

/// A keyword that has no schema in it.
fn plain() -> impl Strategy<Value = (String, Value)> {
    prop_oneof![
        4 => words().prop_map(|kind| ("type".to_owned(), kind)),
        1 => Just(("enum".to_owned(), json!(["a", "", null, 1, true]))),
        1 => Just(("enum".to_owned(), json!(["a", "b"]))),
        1 => Just(("const".to_owned(), json!(3))),
        1 => Just(("format".to_owned(), json!("email"))),
        1 => Just(("minimum".to_owned(), json!(1))),
        1 => Just(("exclusiveMinimum".to_owned(), json!(true))),
        1 => Just(("required".to_owned(), json!(["a", "zz"]))),
        1 => Just(("description".to_owned(), json!("what it is"))),
        1 => Just(("default".to_owned(), json!({ "type": "x", "$ref": "#/nowhere" }))),
        1 => Just(("uniqueItems".to_owned(), json!(true))),
        1 => Just(("x-vendor".to_owned(), json!([1]))),
        2 => prop_oneof![Just("#"), Just("#/$defs/a"), Just("#/$defs/b"), Just("#/properties/a"), Just("#x"), Just("http://x.test/")]
            .prop_map(|target| ("$ref".to_owned(), json!(target))),
    ]
}

fn schema() -> impl Strategy<Value = Value> {
    let of = |fields: Vec<(String, Value)>| Value::Object(fields.into_iter().collect());
    let leaf = prop_oneof![
        9 => proptest::collection::vec(plain(), 0..4).prop_map(of),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(json!("no schema")),
    ];
    leaf.prop_recursive(4, 40, 4, move |inner| {
        let named = proptest::collection::btree_map("[ab]|a b|[$]x", inner.clone(), 0..4)
            .prop_map(|map| Value::Object(map.into_iter().collect()));
        let list = proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from);
        let keyword = prop_oneof![
            3 => named.clone().prop_map(|map| ("properties".to_owned(), map)),
            1 => named.prop_map(|map| ("$defs".to_owned(), map)),
            3 => (prop_oneof![Just("anyOf"), Just("oneOf"), Just("allOf"), Just("prefixItems"), Just("items")], list)
                .prop_map(|(word, list)| (word.to_owned(), list)),
            3 => (prop_oneof![Just("items"), Just("additionalProperties"), Just("not"), Just("if")], inner)
                .prop_map(|(word, schema)| (word.to_owned(), schema)),
        ];
        let fields = (
            proptest::collection::vec(plain(), 0..4),
            proptest::collection::vec(keyword, 0..4),
        );
        fields.prop_map(|(mut fields, more)| {
            fields.extend(more);
            Value::Object(fields.into_iter().collect())
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// It ends, what comes is accepted, and what is accepted stays as it is.
    #[test]
    fn what_comes_is_what_the_provider_takes(root in schema()) {
        for format in ProviderFormat::ALL {
            let rendered = render_tool(*format, &tool(&root), "t");
            let Some(json) = rendered.json else {
                prop_assert_eq!(rendered.losses.len(), 1);
                prop_assert_eq!(rendered.losses[0].change, LossKind::ToolOmitted);
                continue;
            };
            let json = json.to_value();
            if let Err(why) = oracle::accepts(*format, &json) {
                return Err(TestCaseError::fail(format!("{format}: {why}: {root} became {json}")));
            }
            if rendered.losses.is_empty() && *format != ProviderFormat::Mcp {
                prop_assert_eq!(oracle::schema(*format, &json), Some(&root), "{}", format);
            }
        }
    }
}
