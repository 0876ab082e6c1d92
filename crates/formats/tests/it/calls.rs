//! Reading what a model asks for.

use formats::{ProviderFormat, ToolCallRequest, parse_calls};
use serde_json::{Value, json};
use tool::Json;

fn read(format: ProviderFormat, message: &Value) -> Vec<ToolCallRequest> {
    parse_calls(format, &Json::encode(message)).unwrap()
}

fn refused(format: ProviderFormat, message: &Value) -> String {
    parse_calls(format, &Json::encode(message)).unwrap_err().to_string()
}

fn openai(arguments: &Value) -> Value {
    let function = json!({ "name": "notes_append", "arguments": arguments });
    json!([{ "id": "call_1", "type": "function", "function": function }])
}

#[test]
fn openai_arguments_are_a_string_an_object_or_nothing() {
    for (given, raw) in [
        (json!(r#"{"n": 1.0e2}"#), r#"{"n": 1.0e2}"#),
        (json!({ "n": 1 }), r#"{"n":1}"#),
        (json!(""), "{}"),
        (Value::Null, "{}"),
    ] {
        let calls = read(ProviderFormat::OpenaiChat, &openai(&given));
        assert_eq!(
            (calls[0].id.as_deref(), calls[0].name.as_str()),
            (Some("call_1"), "notes_append")
        );
        assert_eq!(calls[0].parse_arguments().unwrap().as_json().as_str(), raw);
    }
}

#[test]
fn a_call_with_broken_arguments_does_not_take_the_others_down() {
    let call = |id: &str, arguments: &str| json!({ "id": id, "function": { "name": "t", "arguments": arguments } });
    let calls = json!([call("a", "{'n': 1}"), call("b", "{}"), call("c", "[1]")]);
    let calls =
        read(ProviderFormat::OpenaiChat, &json!({ "role": "assistant", "tool_calls": calls }));
    let error = |index: usize| calls[index].parse_arguments().unwrap_err();
    assert_eq!(
        error(0),
        "the arguments of `t` are not valid JSON: key must be a string at line 1 column 2"
    );
    assert!(calls[1].parse_arguments().is_ok());
    assert_eq!(
        error(2),
        "the arguments of `t` are not a JSON object: expected object, found \
        array"
    );
}

#[test]
fn the_same_key_twice_in_arguments_is_refused() {
    let calls = read(ProviderFormat::OpenaiChat, &openai(&json!(r#"{"to":"a","to":"b"}"#)));
    assert!(calls[0].parse_arguments().unwrap_err().contains("key `to` occurs twice"));
}

#[test]
fn calls_are_found_in_a_completion_a_message_and_an_array() {
    let calls = openai(&json!("{}"));
    let message = json!({ "role": "assistant", "content": null, "tool_calls": calls });
    let completion = json!({ "choices": [{ "message": message, "finish_reason": "tool_calls" }] });
    for shape in [&calls, &message, &completion] {
        assert_eq!(read(ProviderFormat::OpenaiChat, shape).len(), 1);
    }
    assert!(
        read(ProviderFormat::OpenaiChat, &json!({ "role": "assistant", "content": "hi" }))
            .is_empty()
    );
    assert!(read(ProviderFormat::OpenaiChat, &json!({ "tool_calls": null })).is_empty());
}

#[test]
fn a_message_that_cannot_be_read_names_the_place() {
    let bad = |calls: Value| refused(ProviderFormat::OpenaiChat, &calls);
    assert_eq!(bad(json!("hi")), "`message` is string; expected an object");
    assert_eq!(
        bad(json!({ "choices": [] })),
        "`choices[0].message` is missing; expected an object"
    );
    assert_eq!(bad(json!({ "tool_calls": {} })), "`tool_calls` is object; expected an array");
    assert_eq!(bad(json!([{ "id": 1 }])), "`tool_calls[0].id` is number; expected a string");
    assert_eq!(
        bad(json!([{ "id": "a", "function": {} }])),
        "`tool_calls[0].function.name` is missing; expected a string"
    );
    assert_eq!(
        bad(json!([{ "id": "a", "type": "custom", "custom": {} }])),
        "`tool_calls[0].type` is `custom`; expected `function`"
    );
    let many = vec![openai(&json!("{}"))[0].clone(); 129];
    assert_eq!(bad(json!(many)), "`tool_calls` has 129 calls; the maximum is 128");
}

#[test]
fn an_mcp_call_keeps_the_bytes_of_its_arguments() {
    let params = r#"{"name":"a.b","arguments":{ "n" : 12345678901234567890123 },"_meta":{}}"#;
    let params = Json::parse(params, tool::JsonLimits::DOCUMENT).unwrap();
    let calls = parse_calls(ProviderFormat::Mcp, &params).unwrap();
    assert_eq!((calls[0].id.as_deref(), calls[0].name.as_str()), (None, "a.b"));
    let args = calls[0].parse_arguments().unwrap();
    assert_eq!(args.as_json().as_str(), r#"{ "n" : 12345678901234567890123 }"#);
    assert_eq!(
        read(ProviderFormat::Mcp, &json!({ "name": "a" }))[0]
            .parse_arguments()
            .unwrap()
            .as_json()
            .as_str(),
        "{}"
    );
}

#[test]
fn an_mcp_call_that_cannot_be_read_names_the_place() {
    assert_eq!(refused(ProviderFormat::Mcp, &json!(1)), "`params` is number; expected an object");
    assert_eq!(
        refused(ProviderFormat::Mcp, &json!([1])),
        "`params[0]` is number; expected an object"
    );
    assert_eq!(
        refused(ProviderFormat::Mcp, &json!({})),
        "`params.name` is missing; expected a string"
    );
    let null = json!({ "name": "a", "arguments": null });
    assert_eq!(
        read(ProviderFormat::Mcp, &null)[0].parse_arguments().unwrap_err(),
        "the arguments of `a` are not a JSON object: expected object, found null"
    );
}
