use serde_json::value::RawValue;
use tool::{AccessScope, NameError, SideEffect, SideEffects, SourceName, ToolTraits};

use super::{offered_name, parse_prompt, parse_resource};
use crate::TraitOverrides;
use source_layers::ToolSelection;

fn source() -> SourceName {
    SourceName::new("files").unwrap()
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

#[test]
fn names_stand_behind_their_source() {
    let offered = |own: &str| offered_name(&source(), own).map(|name| name.to_string());
    assert_eq!(offered("read_file").unwrap(), "files.read_file");
    assert_eq!(offered("a.b").unwrap(), "files.a.b");
    assert_eq!(offered(""), Err(NameError::Empty));
    assert!(offered("ünicode").unwrap_err().to_string().contains("'ü'"));
    assert!(offered(&"x".repeat(122)).is_ok());
    assert!(matches!(offered(&"x".repeat(123)), Err(NameError::TooLong { .. })));
}

#[test]
fn a_problem_names_its_definition_whatever_is_wrong_with_it() {
    let place = |text: &str| {
        super::parse_tool(&source(), &TraitOverrides::default(), (4, &raw(text)))
            .unwrap_err()
            .location
    };
    assert_eq!(place(r#"{"name":"a\u202e","inputSchema":7}"#), "tool `a\\u{202e}`");
    assert_eq!(place(r#"{"name":"a","description":7}"#), "tool `a`");
    assert_eq!(place(r#"{"name":7}"#), "tool 5");
    assert_eq!(place("null"), "tool 5");
    let long = format!("{{\"name\":\"{}\"}}", "x".repeat(1000));
    assert!(place(&long).chars().count() < 100);
}

#[test]
fn a_definition_is_bounded_in_size() {
    let text = format!(
        "{{\"name\":\"a\",\"description\":\"{}\",\"inputSchema\":{{}}}}",
        "x".repeat(300 << 10)
    );
    let problem =
        super::parse_tool(&source(), &TraitOverrides::default(), (0, &raw(&text))).unwrap_err();
    assert!(problem.message.contains("the maximum is 262144"), "{problem:?}");
}

#[test]
fn fields_of_the_wrong_type_beside_the_shape_cost_only_themselves() {
    let text =
        r#"{"name":"a","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":"yes"}}"#;
    let marks = TraitOverrides { trusts_annotations: true, ..TraitOverrides::default() };
    let read = super::parse_tool(&source(), &marks, (0, &raw(text))).unwrap();
    assert_eq!(read.item.traits, ToolTraits { trusted_annotations: true, ..ToolTraits::default() });
    assert_eq!(read.upstream_name, "a");
}

/// Tests each hint alone and combined, of a trusted and an untrusted server. Without trust, no hint
/// makes a tool less strict than a tool without hints.
#[test]
fn annotations_loosen_by_the_operators_word_alone_and_tighten_always() {
    let of = |trust_annotations, hints: &str| {
        let text = format!(r#"{{"name":"a","inputSchema":{{}},"annotations":{hints}}}"#);
        let marks =
            TraitOverrides { trusts_annotations: trust_annotations, ..TraitOverrides::default() };
        super::parse_tool(&source(), &marks, (0, &raw(&text))).unwrap().item.traits
    };
    let network = vec![AccessScope::Network];
    let changes = SideEffects::Declared(vec![SideEffect::SystemState]);
    for (hints, effects, destructive, idempotent, scopes) in [
        ("{}", SideEffects::Unknown, [false; 2], false, vec![]),
        (r#"{"readOnlyHint":true}"#, SideEffects::read_only(), [false; 2], false, vec![]),
        (
            r#"{"readOnlyHint":true,"destructiveHint":true}"#,
            SideEffects::read_only(),
            [false, true],
            false,
            vec![],
        ),
        (r#"{"readOnlyHint":false}"#, changes.clone(), [true; 2], false, vec![]),
        (r#"{"readOnlyHint":false,"destructiveHint":false}"#, changes, [false; 2], false, vec![]),
        (r#"{"destructiveHint":true}"#, SideEffects::Unknown, [true; 2], false, vec![]),
        (
            r#"{"destructiveHint":true,"readOnlyHint":"yes"}"#,
            SideEffects::Unknown,
            [true; 2],
            false,
            vec![],
        ),
        (
            r#"{"idempotentHint":true,"openWorldHint":true}"#,
            SideEffects::Unknown,
            [false; 2],
            true,
            network,
        ),
    ] {
        let trusted = of(true, hints);
        assert_eq!((trusted.effects, trusted.is_destructive), (effects, destructive[0]), "{hints}");
        assert_eq!((trusted.is_idempotent, trusted.scopes), (idempotent, scopes), "{hints}");
        let strict = ToolTraits { is_destructive: destructive[1], ..ToolTraits::default() };
        assert_eq!(of(false, hints), strict, "{hints}");
    }
    // The operator's override takes precedence over both.
    let marks = TraitOverrides { read_only: ToolSelection::All, ..TraitOverrides::default() };
    let text = r#"{"name":"a","inputSchema":{},"annotations":{"destructiveHint":true}}"#;
    let traits = super::parse_tool(&source(), &marks, (0, &raw(text))).unwrap().item.traits;
    assert_eq!((traits.effects, traits.is_destructive), (SideEffects::read_only(), false));
    let marks =
        TraitOverrides { destructive: Some(ToolSelection::NONE), ..TraitOverrides::default() };
    let traits = super::parse_tool(&source(), &marks, (0, &raw(text))).unwrap().item.traits;
    assert_eq!((traits.effects, traits.is_destructive), (SideEffects::Unknown, false));
}

#[test]
fn prompts_and_resources_need_what_names_them() {
    assert_eq!(
        parse_prompt(&source(), (0, &raw(r#"{"name":"p"}"#))).unwrap().item.name.as_str(),
        "files.p"
    );
    assert!(parse_prompt(&source(), (0, &raw(r#"{"title":"p"}"#))).is_err());
    let read = |template, text| parse_resource(template, (0, &raw(text)));
    assert!(
        read(false, r#"{"uri":"a:b"}"#).is_ok() && read(true, r#"{"uriTemplate":"a:{b}"}"#).is_ok()
    );
    assert!(read(false, r#"{"uri":""}"#).is_err() && read(true, r#"{"uri":"a:b"}"#).is_err());
}
