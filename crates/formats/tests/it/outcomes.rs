//! Writing what came of a call.

use formats::{ProviderFormat, ToolCallResult, render_results};
use serde_json::{Value, json};
use tool::{Json, JsonLimits, Outcome, OutcomeBody};

fn write_outcome(format: ProviderFormat, outcome: &Outcome, id: &str) -> Json {
    let (id, outcome) = (Some(id.to_owned()), outcome.clone());
    let messages = render_results(format, &[ToolCallResult { id, name: "t".to_owned(), outcome }]);
    messages.elements()[0].clone()
}

fn json_text(text: &str) -> Json {
    Json::parse(text.to_owned(), JsonLimits::DOCUMENT).unwrap()
}

fn mcp_result(text: &str) -> Outcome {
    Outcome { body: OutcomeBody::Mcp(json_text(text)), is_error: false }
}

fn content(outcome: &Outcome) -> String {
    let message = write_outcome(ProviderFormat::OpenaiChat, outcome, "call_1").to_value();
    assert_eq!((&message["role"], &message["tool_call_id"]), (&json!("tool"), &json!("call_1")));
    message["content"].as_str().unwrap().to_owned()
}

#[test]
fn openai_content_is_text() {
    let value = |value: Value| content(&Outcome::from_value(Json::encode(&value)));
    assert_eq!(value(json!("plain")), "plain");
    assert_eq!(value(json!({ "a": [1, null] })), r#"{"a":[1,null]}"#);
    assert_eq!(value(Value::Null), "null");
    assert_eq!(content(&Outcome::tool_failure("no such file")), "Error: no such file");
}

#[test]
fn numbers_keep_their_digits() {
    let outcome = Outcome::from_value(json_text("12345678901234567890123"));
    assert_eq!(content(&outcome), "12345678901234567890123");
    let outcome = Outcome::from_value(json_text(r#"{"n":1.0e2}"#));
    let written = write_outcome(ProviderFormat::Mcp, &outcome, "");
    assert!(
        written.as_str().contains(r#""structuredContent":{"n":1.0e2}"#),
        "{}",
        written.as_str()
    );
}

#[test]
fn an_mcp_result_passes_untouched() {
    let text = r#"{ "content": [{"type":"hologram","x":1.0}], "_meta": {"k":1}, "resultType":"complete" }"#;
    assert_eq!(write_outcome(ProviderFormat::Mcp, &mcp_result(text), "").as_str(), text);
}

#[test]
fn a_value_becomes_an_mcp_result() {
    let written = |outcome: &Outcome| write_outcome(ProviderFormat::Mcp, outcome, "").to_value();
    assert_eq!(
        written(&Outcome::from_value(Json::encode(&json!({ "line": 3 })))),
        json!({
            "content": [{ "type": "text", "text": "{\"line\":3}" }],
            "structuredContent": { "line": 3 },
            "isError": false,
        })
    );
    assert_eq!(
        written(&Outcome::tool_failure("no")),
        json!({ "content": [{ "type": "text", "text": "no" }], "isError": true })
    );
}

#[test]
fn parts_that_are_no_text_are_named() {
    let text = r#"{"content":[
        {"type":"text","text":"one"},
        {"type":"image","data":"AAAA","mimeType":"image/png"},
        {"type":"resource_link","uri":"file:///a","name":"a"},
        {"type":"resource","resource":{"uri":"file:///b","text":"inside"}},
        {"type":"resource","resource":{"uri":"file:///c","blob":"AAAA"}}]}"#;
    assert_eq!(
        content(&mcp_result(text)),
        "one\n[image image/png, not text]\n[resource file:///a]\ninside\n[resource file:///c, not text]"
    );
    let structured = r#"{"content":[],"structuredContent":{"a":1}}"#;
    assert_eq!(content(&mcp_result(structured)), r#"{"a":1}"#);
}
