//! Tests of malformed messages.

use hyper::Method;
use serde_json::{Value, json};
use tool::PermissionLevel;

use crate::support::client::message;
use crate::support::{Client, FixtureServer};

async fn send(client: &Client, text: &str) -> (u16, Value) {
    let reply = client.send(Method::POST, "/mcp", text.to_owned().into()).await;
    (reply.status.as_u16(), reply.json())
}

#[tokio::test]
async fn what_is_malformed_is_told_in_words() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for (text, code, told) in [
        ("{", -32_700, "the message: EOF while parsing an object at line 1 column 1"),
        (" ", -32_700, "the message: EOF while parsing a value at line 1 column 1"),
        ("[]", -32_600, "batches are not supported; send one message at a time"),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            -32_600,
            "the response matches no session with a pending request",
        ),
        (
            r#"{"jsonrpc":"2.0","id":[],"method":"ping"}"#,
            -32_600,
            "`id` is array; expected a string or a whole number",
        ),
        // Two readers could take two different tools from this.
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"needs.guest","name":"needs.owner"}}"#,
            -32_700,
            "the message: key `name` occurs twice at line 1 column 83",
        ),
    ] {
        let (status, body) = send(&ann, text).await;
        let error = json!({"code": code, "message": told});
        assert_eq!((status, &body["error"]), (400, &error), "{text}");
    }
    let (_, body) = send(&ann, r#"{"jsonrpc":"2.0","id":"a","method":5}"#).await;
    assert_eq!((&body["jsonrpc"], &body["id"]), (&json!("2.0"), &json!("a")));
    assert_eq!(server.ledger.all_records(), []);
}

#[tokio::test]
async fn params_that_cannot_be_read_are_told_in_words() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for (method, params, told) in [
        ("tools/call", json!({}), "`params.name` is missing; expected a string"),
        ("tools/call", json!({"name": 5}), "`params.name` is number; expected a string"),
        ("initialize", json!({}), "`params.protocolVersion` is missing; expected a string"),
    ] {
        let (status, body) = send(&ann, &message(method, params).to_string()).await;
        let error = json!({"code": -32_602, "message": told});
        assert_eq!((status, &body["error"]), (200, &error), "{method}");
    }
    let (_, body) = send(&ann, &message("a\u{7}b", json!({})).to_string()).await;
    let error = json!({"code": -32_601, "message": "unknown method `a\\u{7}b`"});
    assert_eq!(body["error"], error);
    assert_eq!(server.ledger.all_records(), []);
}

#[tokio::test]
async fn a_call_without_an_id_does_not_run() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let mut call = message("tools/call", json!({"name": "notes.append"}));
    call.as_object_mut().unwrap().remove("id");
    let reply = ann.legacy_request(&call).await;
    assert_eq!((reply.status.as_u16(), reply.text()), (202, ""));
    call["id"] = Value::Null;
    assert_eq!(ann.legacy_request(&call).await.status, 400);
    assert_eq!(server.ledger.all_records(), []);
}

#[tokio::test]
async fn what_is_too_large_is_told_so() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let reply = ann.send(Method::POST, "/mcp", vec![b' '; (2 << 20) + 1].into()).await;
    let told = "the body is larger than 2097152 bytes".to_owned();
    assert_eq!(reply.error(), (413, "too_large".to_owned(), told));
    let text = "x".repeat((1 << 20) + 1);
    let call = json!({"name": "notes.append", "arguments": {"t": text}});
    let result =
        ann.legacy_request(&message("tools/call", call)).await.expect_ok()["result"].clone();
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("invalid_arguments: ") && result["isError"] == true, "{text}");
}

#[tokio::test]
async fn the_media_types_are_those_of_mcp() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let ping = message("ping", json!({}));
    for (name, value, status) in [
        ("content-type", "text/plain", 415),
        ("content-type", "application/x-www-form-urlencoded", 415),
        ("content-type", "application/json; charset=utf-8", 200),
        ("content-type", "application/json;CHARSET=\"UTF-8\"", 200),
        ("content-type", "application/json; charset=utf-16", 415),
        ("content-type", "application/jsonx", 415),
        ("accept", "*/*", 200),
        ("accept", "application/*, text/html", 406),
        ("accept", "application/json", 406),
        ("accept", "text/event-stream, application/json;q=0.5", 200),
    ] {
        assert_eq!(
            ann.with_header(name, value).legacy_request(&ping).await.status,
            status,
            "{name}: {value}"
        );
    }
}
