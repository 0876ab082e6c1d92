use serde_json::{Value, json};

use super::CostModel;

const BUDGET: u64 = 1_000_000;

fn count(schema: &Value, args: &Value) -> Option<u64> {
    CostModel::from_schema(schema).unwrap().count_evaluations(args, BUDGET)
}

/// `levels` references, each of which branches `branches` times.
fn branching(levels: usize, branches: usize) -> Value {
    let next = |level: usize| json!({ "$ref": format!("#/$defs/d{}", level + 1) });
    let level = |at: usize| (format!("d{at}"), json!({ "anyOf": vec![next(at); branches] }));
    let mut defs: serde_json::Map<_, _> = (0..levels).map(level).collect();
    defs.insert(format!("d{levels}"), json!({ "type": "integer" }));
    json!({ "properties": { "s": { "$ref": "#/$defs/d0" } }, "$defs": defs })
}

fn nested(word: &str, depth: usize) -> Value {
    (0..depth).fold(json!(1), |inner, _| json!({ word: inner }))
}

#[test]
fn references_that_branch_at_one_value_are_over_the_budget() {
    assert_eq!(count(&branching(60, 2), &json!({ "s": 1 })), None);
    assert_eq!(count(&branching(22, 2), &json!({ "s": 1 })), None);
    assert_eq!(count(&branching(60, 2), &json!({})), Some(1), "what is not there costs nothing");
    // The control: the same references are few evaluations where they do not branch, and the count of
    // those that do is the number of ways.
    assert!(count(&branching(60, 1), &json!({ "s": 1 })).unwrap() < 200);
    let (ten, eleven) = (branching(10, 2), branching(11, 2));
    let [ten, eleven] = [ten, eleven].map(|it| count(&it, &json!({ "s": 1 })).unwrap());
    assert!(ten > 1 << 11 && eleven > 2 * ten - 100, "{ten} {eleven}");
}

#[test]
fn references_that_branch_below_one_another_are_over_the_budget() {
    let twice = json!({ "properties": { "s": { "$ref": "#" } },
        "allOf": [{ "properties": { "s": { "$ref": "#" } } }] });
    assert_eq!(count(&twice, &nested("s", 50)), None);
    assert!(count(&twice, &nested("s", 5)).is_some());
    let once = json!({ "properties": { "s": { "$ref": "#" } }, "allOf": [{ "required": [] }] });
    assert!(count(&once, &nested("s", 50)).unwrap() < 1_000, "the control");
    let dynamic = json!({ "$dynamicAnchor": "x",
        "properties": { "s": { "anyOf": [{ "$dynamicRef": "#x" }, { "$dynamicRef": "#x" }] } } });
    assert_eq!(count(&dynamic, &nested("s", 50)), None);
    let ids = json!({ "$id": "https://h/a", "properties": { "s": { "$ref": "b" } },
        "$defs": { "b": { "$id": "b", "anyOf": [{ "properties": { "s": { "$ref": "#" } } },
            { "properties": { "s": { "$ref": "https://h/b" } } }] } } });
    assert_eq!(count(&ids, &nested("s", 50)), None);
}

#[test]
fn many_values_against_many_schemas_are_over_the_budget() {
    let many: Vec<_> = (0..1_000).map(|at| json!({ "const": at })).collect();
    let any = json!({ "properties": { "a": { "items": { "anyOf": many } } } });
    assert_eq!(count(&any, &json!({ "a": vec![0; 5_000] })), None);
    assert!(count(&any, &json!({ "a": vec![0; 500] })).is_some());
    let values: Vec<_> = (0..8_000).map(|at| at.to_string()).collect();
    let listed = json!({ "properties": { "a": { "items": { "enum": values } } } });
    assert_eq!(count(&listed, &json!({ "a": vec![0; 5_000] })), None);
    let parts: Vec<_> =
        (0..500).map(|at| json!({ "properties": { at.to_string(): {} } })).collect();
    let rest = json!({ "anyOf": parts, "unevaluatedProperties": false });
    let args: serde_json::Map<_, _> = (0..5_000).map(|at| (at.to_string(), json!(1))).collect();
    assert_eq!(count(&rest, &args.into()), None);
}

#[test]
fn what_people_write_is_far_below_the_budget() {
    // A filter, as the interfaces of databases have it: recursive, with a choice at each level.
    let filter = json!({ "$ref": "#/$defs/filter", "$defs": { "filter": { "anyOf": [
        { "type": "object", "properties": { "and": { "type": "array", "items": { "$ref": "#/$defs/filter" } } } },
        { "type": "object", "properties": { "or": { "type": "array", "items": { "$ref": "#/$defs/filter" } } } },
        { "type": "object", "properties": { "property": { "type": "string" }, "equals": {} } } ] } } });
    let mut args = json!({ "property": "a", "equals": 1 });
    for word in ["and", "or", "and", "or", "and", "or"] {
        args = json!({ word: [args.clone(), args] });
    }
    assert!(count(&filter, &args).unwrap() < 10_000);
    let tree = json!({ "properties": { "name": {}, "below": { "items": { "$ref": "#" } } } });
    let mut args = json!({ "name": "leaf" });
    for _ in 0..12 {
        args = json!({ "name": "x", "below": [args.clone(), args] });
    }
    assert!(count(&tree, &args).unwrap() < 100_000);
    let rows = json!({ "properties": { "rows": { "items": { "items": { "type": "number" } } } } });
    assert!(count(&rows, &json!({ "rows": vec![vec![1; 100]; 500] })).unwrap() < 200_000);
}

#[test]
fn a_reference_that_leads_nowhere_or_to_itself_is_refused() {
    let of = |schema: Value| CostModel::from_schema(&schema).unwrap_err();
    for schema in [
        json!({ "$ref": "#" }),
        json!({ "properties": { "s": { "$ref": "#/properties/s" } } }),
        json!({ "allOf": [{ "$ref": "#/$defs/a" }], "$defs": { "a": { "not": { "$ref": "#" } } } }),
    ] {
        assert!(of(schema).contains("recurses on the same value"));
    }
    assert!(of(json!({ "$ref": "#/$defs/none" })).contains("`#/$defs/none`"));
    assert!(of(json!({ "$ref": "else.json" })).contains("`else.json`"));
    CostModel::from_schema(&json!({ "$ref": "http://json-schema.org/draft-07/schema#" })).unwrap();
    let spelled = json!({ "$ref": "#/$defs/a%20b~1c", "$defs": { "a b/c": {} } });
    CostModel::from_schema(&spelled).unwrap();
}
