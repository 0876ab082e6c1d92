use serde_json::{Value, json};
use tool::Json;

use super::{LossKind, LoweredSchema, lower_schema, provider_rules};

fn lowered(schema: &Value, rules: &provider_rules::ProviderRules) -> (Value, LoweredSchema) {
    let lowered = lower_schema(&Json::encode(schema), rules).unwrap();
    (lowered.schema.to_value(), lowered)
}

fn changes(lowered: &LoweredSchema) -> Vec<(&str, &str, LossKind)> {
    let losses = lowered.losses.iter();
    losses.map(|loss| (loss.pointer.as_str(), loss.keyword.as_str(), loss.change)).collect()
}

#[test]
fn what_needs_no_change_keeps_its_bytes() {
    let text = r#"{ "type":"object", "properties": {"n": {"type":"integer","maximum":1.0e2}} }"#;
    let schema = Json::parse(text, tool::JsonLimits::DEFINITION).unwrap();
    for rules in [&provider_rules::OPENAI, &provider_rules::ANTHROPIC, &provider_rules::GEMINI] {
        assert_eq!(lower_schema(&schema, rules).unwrap().schema.as_str(), text);
    }
}

#[test]
fn a_reference_is_resolved_and_one_to_itself_is_cut() {
    let schema = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}},
        "$defs": {"n": {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}}}});
    let (shown, lowered) = lowered(&schema, &provider_rules::OLLAMA);
    let node = json!({"type": "object", "properties": {"next": {"type": "object"}}});
    assert_eq!(shown["properties"]["a"], node);
    assert_eq!(
        changes(&lowered),
        [
            ("/properties/a", "$ref", LossKind::Rewritten),
            ("/properties/a/properties/next", "$ref", LossKind::Dropped),
            ("", "$defs", LossKind::Dropped),
        ]
    );
    // Where the provider follows references they stay.
    let kept = lower_schema(&Json::encode(&schema), &provider_rules::ANTHROPIC).unwrap();
    assert!(kept.losses.is_empty());
}

#[test]
fn a_reference_to_what_has_moved_is_resolved_too() {
    let schema = json!({"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}}],
        "properties": {"b": {"$ref": "#/allOf/0/properties/a"}}});
    let (shown, _) = lowered(&schema, &provider_rules::ANTHROPIC);
    assert_eq!(shown["properties"]["b"], json!({"type": "string"}));
}

/// Ten references to ten references, ten times over: resolved, it would be ten thousand million schemas.
#[test]
fn a_bomb_of_references_ends() {
    let mut defs = serde_json::Map::new();
    for level in 0..10 {
        let target = format!("#/$defs/d{}", level + 1);
        let all: serde_json::Map<_, _> =
            (0..10).map(|i| (format!("p{i}"), json!({"$ref": target}))).collect();
        defs.insert(format!("d{level}"), json!({"type": "object", "properties": all}));
    }
    defs.insert("d10".to_owned(), json!({"type": "string"}));
    let bomb =
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": defs});
    let loss = lower_schema(&Json::encode(&bomb), &provider_rules::OLLAMA).unwrap_err();
    assert_eq!(loss.change, LossKind::ToolOmitted);
    assert!(loss.reason.contains("too large"), "{}", loss.reason);
}

/// A chain of references, each further inside: the walk would go as deep as the chain is long.
#[test]
fn a_long_chain_of_references_is_cut() {
    let link = |i: usize| {
        let next = format!("#/$defs/d{}", i + 1);
        (format!("d{i}"), json!({"type": "object", "properties": {"next": {"$ref": next}}}))
    };
    let mut defs: serde_json::Map<_, _> = (0..3_000).map(link).collect();
    defs.insert("d3000".to_owned(), json!({"type": "string"}));
    let chain =
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": defs});
    let (_, lowered) = lowered(&chain, &provider_rules::OLLAMA);
    assert!(
        changes(&lowered)
            .iter()
            .any(|(_, word, change)| (*word, *change) == ("$ref", LossKind::Dropped))
    );
    assert!(lowered.losses.len() < 100, "{}", lowered.losses.len());
}

#[test]
fn alternatives_at_the_root_show_all_arguments() {
    let only_required = json!({"type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}]});
    let (shown, lowered) = lowered(&only_required, &provider_rules::ANTHROPIC);
    assert_eq!(shown, json!({"type": "object", "properties": only_required["properties"]}));
    assert_eq!(lowered.root_notes, ["arguments that belong together: a; or: b"]);
}

#[test]
fn renamed_arguments_are_turned_back() {
    let schema = json!({"type": "object", "required": ["a[b]"],
        "properties": {"a[b]": {}, "a_b_": {}, "ok": {}}});
    let (shown, lowered) = lowered(&schema, &provider_rules::ANTHROPIC);
    let name = shown["required"][0].as_str().unwrap();
    assert!(provider_rules::NameRule::Dotted.accepts_name(name) && name != "a_b_", "{name}");
    let args =
        Json::parse(format!(r#"{{"{name}": 1.0e2 ,"a_b_":2}}"#), tool::JsonLimits::ARGUMENTS)
            .unwrap();
    assert_eq!(
        lowered.argument_mapping.restore_arguments(&args).as_str(),
        r#"{"a[b]":1.0e2,"a_b_":2}"#
    );
    // Whoever writes both gets neither for the other.
    let both =
        Json::parse(format!(r#"{{"{name}":1,"a[b]":2}}"#), tool::JsonLimits::ARGUMENTS).unwrap();
    assert_eq!(lowered.argument_mapping.restore_arguments(&both), both);
}

#[test]
fn null_is_nullable_where_there_is_one_type() {
    let schema = json!({"type": "object", "properties": {
        "a": {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "x"},
        "b": {"anyOf": [{"type": "string"}, {"type": "integer"}], "title": "B"},
        "c": {"type": ["array", "null"], "items": {"type": "string"}}}});
    let (shown, _) = lowered(&schema, &provider_rules::GEMINI);
    assert_eq!(
        shown["properties"]["a"],
        json!({"type": "string", "description": "x", "nullable": true})
    );
    let either =
        json!({"anyOf": [{"type": "string", "title": "B"}, {"type": "integer", "title": "B"}]});
    assert_eq!(shown["properties"]["b"], either);
    let list = json!({"type": "array", "items": {"type": "string"}, "nullable": true});
    assert_eq!(shown["properties"]["c"], list);
}

#[test]
fn a_strict_schema_requires_all_and_lets_it_be_null() {
    let schema = json!({"type": "object", "required": ["a"], "properties": {
        "a": {"type": "string", "minLength": 1},
        "b": {"enum": ["x", "y"], "default": "x"},
        "c": {"type": "array", "items": {"type": "object", "properties": {"d/e": {"type": "integer"}}}}}});
    let (shown, lowered) = lowered(&schema, &provider_rules::OPENAI_STRICT);
    assert_eq!(
        shown,
        json!({"type": "object", "required": ["a", "b", "c"], "additionalProperties": false,
            "properties": {
                "a": {"type": "string", "description": "minLength: 1"},
                "b": {"enum": ["x", "y", null], "type": ["string", "null"], "description": "default: \"x\""},
                "c": {"type": ["array", "null"], "items": {"type": "object",
                    "properties": {"d/e": {"type": ["integer", "null"]}},
                    "additionalProperties": false, "required": ["d/e"]}}}})
    );
    let args = r#"{"a": "1", "b":null,"c":[{"d/e":null},{"d/e":1.0e2}]}"#;
    let args = Json::parse(args, tool::JsonLimits::ARGUMENTS).unwrap();
    assert_eq!(
        lowered.argument_mapping.restore_arguments(&args).as_str(),
        r#"{"a": "1","c":[{},{"d/e":1.0e2}]}"#
    );
}

/// A strict object without properties would take nothing at all.
#[test]
fn a_free_form_object_is_not_strict() {
    for kind in [json!("object"), json!(["object", "null"])] {
        let schema = json!({"type": "object", "properties": {"a": {"type": kind}}});
        assert!(
            lower_schema(&Json::encode(&schema), &provider_rules::OPENAI_STRICT).is_err(),
            "{kind}"
        );
    }
}

/// What a tool takes null for is no stand-in for nothing.
#[test]
fn null_stays_where_the_tool_takes_it() {
    let schema = json!({"type": "object", "properties": {"a": {"type": ["string", "null"]}}});
    let (_, lowered) = lowered(&schema, &provider_rules::OPENAI_STRICT);
    assert!(lowered.argument_mapping.is_identity());
}
