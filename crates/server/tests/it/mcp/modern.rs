//! Tests of 2026-07-28: no handshake, all facts in each request.

use hyper::Method;
use serde_json::{Value, json};
use tool::PermissionLevel;

use crate::support::client::{MODERN, modern_message};
use crate::support::{Client, FixtureServer};

#[tokio::test]
async fn the_server_can_be_discovered() {
    let server = FixtureServer::new().await;
    let reply = server
        .agent_client("ann", PermissionLevel::User)
        .await
        .modern_request("server/discover", json!({}))
        .await;
    assert_eq!(reply.header("mcp-session-id"), None);
    let expected = json!({
        "resultType": "complete",
        "supportedVersions": ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", MODERN],
        "capabilities": {"logging": {}, "tools": {"listChanged": true},
            "prompts": {"listChanged": true}, "completions": {},
            "resources": {"listChanged": true, "subscribe": true},
            "extensions":
                {"io.modelcontextprotocol/tasks": {}, "io.modelcontextprotocol/events": {}}},
        "ttlMs": 60_000, "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo":
            {"name": "toolkeep", "version": env!("CARGO_PKG_VERSION")}},
    });
    assert_eq!(reply.expect_ok()["result"], expected);
}

#[tokio::test]
async fn lists_and_calls() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let list = ann.modern_request("tools/list", json!({})).await.expect_ok();
    let mut result = list["result"].clone();
    let tools = result.as_object_mut().unwrap().remove("tools").unwrap();
    let hints = json!({"resultType": "complete", "ttlMs": 10_000, "cacheScope": "private"});
    assert_eq!(result, hints);
    let rest = ann.get("/v1/tools?format=mcp").await.expect_ok();
    assert_eq!(tools, rest["tools"]);
    let call = json!({"name": "notes.append", "arguments": {"n": 5}});
    let expected = json!({"jsonrpc": "2.0", "id": 1, "result": {
        "resultType": "complete", "content": [{"type": "text", "text": "{\"n\":5}"}],
        "structuredContent": {"n": 5}, "isError": false}});
    assert_eq!(ann.modern_request("tools/call", call).await.expect_ok(), expected);
}

/// Sends a message with exactly these headers.
async fn with(client: &Client, message: &Value, headers: &[(&str, &str)]) -> (u16, Value) {
    let client = headers
        .iter()
        .fold(client.clone(), |client, (name, value)| client.with_header(name, value));
    let reply = client.send(Method::POST, "/mcp", message.to_string().into()).await;
    (reply.status.as_u16(), reply.json())
}

#[tokio::test]
async fn headers_and_body_must_agree() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let message = modern_message("tools/call", json!({"name": "notes.append"}));
    let (version, method, name) = (
        ("mcp-protocol-version", MODERN),
        ("mcp-method", "tools/call"),
        ("mcp-name", "notes.append"),
    );
    let good = with(&ann, &message, &[version, method, name]).await;
    assert_eq!(good.0, 200);
    for headers in [
        vec![method, name],
        vec![version, name],
        vec![version, method],
        vec![("mcp-protocol-version", "2025-11-25"), method, name],
        vec![version, ("mcp-method", "tools/list"), name],
        vec![version, method, ("mcp-name", "needs.guest")],
        vec![version, method, name, ("mcp-name", "needs.guest")],
    ] {
        let (status, body) = with(&ann, &message, &headers).await;
        assert_eq!((status, &body["error"]["code"]), (400, &json!(-32_020)), "{headers:?}");
    }
    assert_eq!(server.recorded_intents().len(), 1);
}

#[tokio::test]
async fn a_parameter_in_a_header_must_be_the_one_in_the_body() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let call = |name: &str| {
        modern_message("tools/call", json!({"name": name, "arguments": {"region": "us"}}))
    };
    let ask = |name: &'static str, region: Option<&'static str>| {
        let (ann, message) = (ann.clone(), call(name));
        async move {
            let mut headers = vec![
                ("mcp-protocol-version", MODERN),
                ("mcp-method", "tools/call"),
                ("mcp-name", name),
            ];
            headers.extend(region.map(|region| ("mcp-param-region", region)));
            with(&ann, &message, &headers).await
        }
    };
    assert_eq!(ask("region", Some("us")).await.0, 200);
    for region in [Some("eu"), None] {
        let (status, body) = ask("region", region).await;
        assert_eq!((status, &body["error"]["code"]), (400, &json!(-32_020)), "{region:?}");
    }
    // Nobody learns from a header which tools there are.
    let (status, body) = ask("nothing", Some("eu")).await;
    assert_eq!((status, &body["error"]["code"]), (200, &json!(-32_602)));
    assert_eq!(server.recorded_intents().len(), 1);
}

#[tokio::test]
async fn each_request_must_say_what_it_speaks() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for missing in ["protocolVersion", "clientCapabilities"] {
        let mut message = modern_message("tools/list", json!({}));
        let meta = message["params"]["_meta"].as_object_mut().unwrap();
        meta.remove(&format!("io.modelcontextprotocol/{missing}"));
        let reply = ann.modern_message(&message).await;
        let error = &reply.json()["error"];
        assert_eq!((reply.status.as_u16(), &error["code"]), (400, &json!(-32_602)), "{missing}");
        assert!(error["message"].as_str().unwrap().contains(missing));
    }
    let mut message = modern_message("tools/list", json!({}));
    message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    let (status, body) = with(
        &ann,
        &message,
        &[("mcp-protocol-version", "2099-01-01"), ("mcp-method", "tools/list")],
    )
    .await;
    assert_eq!((status, &body["error"]["code"]), (400, &json!(-32_022)));
    assert_eq!(body["error"]["data"]["supported"].as_array().unwrap().len(), 5);
}

#[tokio::test]
async fn what_the_revision_took_away_is_gone() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for method in ["initialize", "ping", "resources/subscribe", "logging/setLevel", "no/such"] {
        let reply = ann.modern_request(method, json!({})).await;
        assert_eq!(reply.status, 404, "{method}: {}", reply.text());
        assert_eq!(reply.json()["error"]["code"], -32_601, "{method}");
    }
}
