use serde_json::value::RawValue;
use tool::{NameError, SourceName};

use super::{offered_name, prompt, resource};
use crate::mcp::Marks;

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
    let marks = Marks { believe_annotations: true, ..Marks::default() };
    let read = super::tool(&source(), &marks, (0, &raw(text))).unwrap();
    assert_eq!(read.item.traits, tool::Traits::default());
    assert_eq!(read.own, "a");
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
