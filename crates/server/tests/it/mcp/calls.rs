//! Tests of the results of tool calls.

use serde_json::{Value, json};
use tool::{Durability, PermissionLevel};

use crate::support::client::message;
use crate::support::{Client, FixtureServer, tools};

async fn call(client: &Client, tool: &str, arguments: Value) -> Value {
    let call = json!({"name": tool, "arguments": arguments});
    client.legacy_request(&message("tools/call", call)).await.expect_ok()
}

#[tokio::test]
async fn a_failure_is_for_the_model_to_read() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for (tool, arguments, told) in [
        (
            "notes.append",
            json!({"n": 12}),
            "invalid_arguments: `/n`: 12 is greater than the maximum of 10",
        ),
        (
            "notes.append",
            json!([]),
            "invalid_arguments: the arguments: expected object, found array",
        ),
        ("dangerous", json!({}), "approval_required: the tool is dangerous and needs an approval"),
        ("fails", json!({}), "upstream_failed: it answered 500"),
        ("says_error", json!({}), "no such note"),
    ] {
        let result = call(&ann, tool, arguments).await["result"].clone();
        let expected = json!({"content": [{"type": "text", "text": told}], "isError": true});
        assert_eq!(result, expected, "{tool}");
    }
    server.ledger.fail_from(Some(Durability::Written));
    let result = call(&ann, "notes.append", json!({})).await["result"].clone();
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("record_unavailable: ") && result["isError"] == true, "{text}");
}

#[tokio::test]
async fn hidden_and_unknown_are_one_answer() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for (hidden, unknown) in [("needs.owner", "needs.nobody"), ("needs_owner", "needs_nobody")] {
        let a = call(&ann, hidden, json!({"n": "x"})).await;
        let b = call(&ann, unknown, json!({"n": "x"})).await;
        assert_eq!(a.to_string().replace(hidden, unknown), b.to_string());
        let error = json!({"code": -32_602, "message": format!("unknown tool `{unknown}`")});
        assert_eq!(b["error"], error);
    }
    assert_eq!(
        call(&server.owner_client().await, "needs_owner", json!({})).await["result"]["isError"],
        false
    );
}

#[tokio::test]
async fn an_answer_of_mcp_passes() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let sent: Value = serde_json::from_str(tools::MCP_RESULT).unwrap();
    assert_eq!(call(&ann, "mcp_result", json!({})).await["result"], sent);
    let mut modern =
        ann.modern_request("tools/call", json!({"name": "mcp_result"})).await.expect_ok();
    let result = modern["result"].as_object_mut().unwrap();
    assert_eq!(result.remove("resultType"), Some(json!("complete")));
    assert_eq!(modern["result"], sent);
}

/// The tool receives the arguments byte for byte: a number keeps its digits.
#[tokio::test]
async fn arguments_arrive_as_they_were_sent() {
    let got = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = std::sync::Arc::clone(&got);
    let keeps = testkit::executor::MockExecutor::new(move |args| {
        seen.lock().unwrap().push(args.as_str().to_owned());
        Ok(tool::ExecutionState::Completed(tool::Outcome::from_value(tool::Json::encode("kept"))))
    });
    let open = testkit::read_only_tool("keeps", "d", &json!({"type": "object"}));
    let server =
        FixtureServer::with_offers(vec![tools::tool_offer(open, std::sync::Arc::new(keeps))]).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let arguments = r#"{ "b":1.0, "a":12345678901234567890123, "e":-0.0e-7, "t":"\u00e9" }"#;
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"keeps","arguments":{arguments}}}}}"#
    );
    ann.send(hyper::Method::POST, "/mcp", body.into()).await.expect_ok();
    let body = format!(r#"{{"tool":"keeps","arguments":{arguments}}}"#);
    ann.send(hyper::Method::POST, "/v1/calls", body.into()).await.expect_ok();
    assert_eq!(*got.lock().unwrap(), [arguments, arguments]);
}
