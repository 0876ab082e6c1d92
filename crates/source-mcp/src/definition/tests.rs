use serde_json::value::RawValue;
use tool::{Effect, Effects, NameError, Scope, SourceName, Traits};

use super::{offered_name, prompt, resource};
use crate::Marks;
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
    let place =
        |text: &str| super::tool(&source(), &Marks::default(), (4, &raw(text))).unwrap_err().place;
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
    let problem = super::tool(&source(), &Marks::default(), (0, &raw(&text))).unwrap_err();
    assert!(problem.message.contains("262144 are allowed"), "{problem:?}");
}

#[test]
fn fields_of_the_wrong_type_beside_the_shape_cost_only_themselves() {
    let text =
        r#"{"name":"a","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":"yes"}}"#;
    let marks = Marks { trust_annotations: true, ..Marks::default() };
    let read = super::tool(&source(), &marks, (0, &raw(text))).unwrap();
    assert_eq!(read.item.traits, Traits { trusted_annotations: true, ..Traits::default() });
    assert_eq!(read.own, "a");
}

/// Each hint alone and together, of a server that is trusted and of one that is not. Without the trust nothing is
/// looser than for a tool that says nothing.
#[test]
fn annotations_loosen_by_the_operators_word_alone_and_tighten_always() {
    let of = |trust_annotations, hints: &str| {
        let text = format!(r#"{{"name":"a","inputSchema":{{}},"annotations":{hints}}}"#);
        let marks = Marks { trust_annotations, ..Marks::default() };
        super::tool(&source(), &marks, (0, &raw(&text))).unwrap().item.traits
    };
    let network = vec![Scope::Network];
    let changes = Effects::Declared(vec![Effect::SystemState]);
    for (hints, effects, destructive, idempotent, scopes) in [
        ("{}", Effects::Unknown, [false; 2], false, vec![]),
        (r#"{"readOnlyHint":true}"#, Effects::read_only(), [false; 2], false, vec![]),
        (
            r#"{"readOnlyHint":true,"destructiveHint":true}"#,
            Effects::read_only(),
            [false, true],
            false,
            vec![],
        ),
        (r#"{"readOnlyHint":false}"#, changes.clone(), [true; 2], false, vec![]),
        (r#"{"readOnlyHint":false,"destructiveHint":false}"#, changes, [false; 2], false, vec![]),
        (r#"{"destructiveHint":true}"#, Effects::Unknown, [true; 2], false, vec![]),
        (
            r#"{"destructiveHint":true,"readOnlyHint":"yes"}"#,
            Effects::Unknown,
            [true; 2],
            false,
            vec![],
        ),
        (
            r#"{"idempotentHint":true,"openWorldHint":true}"#,
            Effects::Unknown,
            [false; 2],
            true,
            network,
        ),
    ] {
        let trusted = of(true, hints);
        assert_eq!((trusted.effects, trusted.destructive), (effects, destructive[0]), "{hints}");
        assert_eq!((trusted.idempotent, trusted.scopes), (idempotent, scopes), "{hints}");
        let strict = Traits { destructive: destructive[1], ..Traits::default() };
        assert_eq!(of(false, hints), strict, "{hints}");
    }
    // The operator's word goes before both.
    let marks = Marks { read_only: ToolSelection::All, ..Marks::default() };
    let text = r#"{"name":"a","inputSchema":{},"annotations":{"destructiveHint":true}}"#;
    let traits = super::tool(&source(), &marks, (0, &raw(text))).unwrap().item.traits;
    assert_eq!((traits.effects, traits.destructive), (Effects::read_only(), false));
    let marks = Marks { destructive: Some(ToolSelection::None), ..Marks::default() };
    let traits = super::tool(&source(), &marks, (0, &raw(text))).unwrap().item.traits;
    assert_eq!((traits.effects, traits.destructive), (Effects::Unknown, false));
}

#[test]
fn prompts_and_resources_need_what_names_them() {
    assert_eq!(
        prompt(&source(), (0, &raw(r#"{"name":"p"}"#))).unwrap().item.name.as_str(),
        "files.p"
    );
    assert!(prompt(&source(), (0, &raw(r#"{"title":"p"}"#))).is_err());
    let read = |template, text| resource(template, (0, &raw(text)));
    assert!(
        read(false, r#"{"uri":"a:b"}"#).is_ok() && read(true, r#"{"uriTemplate":"a:{b}"}"#).is_ok()
    );
    assert!(read(false, r#"{"uri":""}"#).is_err() && read(true, r#"{"uri":"a:b"}"#).is_err());
}
