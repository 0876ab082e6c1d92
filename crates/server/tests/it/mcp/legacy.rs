//! Tests of the handshake era, 2024-11-05 to 2025-11-25: handshake, lists and calls.

use serde_json::{Value, json};
use tool::PermissionLevel;

use crate::support::client::message;
use crate::support::{FixtureServer, tools};

fn initialize(version: &str) -> Value {
    let params = json!({"protocolVersion": version, "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}});
    message("initialize", params)
}

#[tokio::test]
async fn the_handshake_settles_the_revision() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for (asked, settled) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        // A handshake belongs to the older revisions, whichever it names.
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let text = initialize(asked).to_string().into();
        let reply = ann.send(hyper::Method::POST, "/mcp", text).await;
        let expected = json!({"jsonrpc": "2.0", "id": 1, "result": {
            "protocolVersion": settled,
            "capabilities": {"logging": {}, "tools": {"listChanged": true},
                "prompts": {"listChanged": true}, "completions": {},
                "resources": {"listChanged": true, "subscribe": true}},
            "serverInfo": {"name": "toolkeep", "version": env!("CARGO_PKG_VERSION")}}});
        let session = reply.header("mcp-session-id").unwrap().to_owned();
        assert_eq!(reply.expect_ok(), expected, "{asked}");
        let session = ann.with_header("mcp-session-id", &session);
        let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let done = session.legacy_request(&done).await;
        assert_eq!((done.status.as_u16(), done.text()), (202, ""));
        assert_eq!(
            session.legacy_request(&message("ping", json!({}))).await.expect_ok()["result"],
            json!({})
        );
    }
}

#[tokio::test]
async fn lists_and_calls() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let list = ann.legacy_request(&message("tools/list", json!({}))).await.expect_ok();
    let result = list["result"].as_object().unwrap();
    assert_eq!(result.keys().collect::<Vec<_>>(), ["tools"], "no member of the new revision");
    let append = json!({"name": "notes.append", "description": "The tool notes.append.",
        "inputSchema": {"type": "object", "properties": {"n": {"type": "integer", "maximum": 10}}},
        "annotations": {"readOnlyHint": true}});
    assert_eq!(list["result"]["tools"][2], append);
    let call = json!({"name": "notes.append", "arguments": {"n": 5}});
    let called = ann.legacy_request(&message("tools/call", call)).await.expect_ok();
    let expected = json!({"jsonrpc": "2.0", "id": 1, "result": {
        "content": [{"type": "text", "text": "{\"n\":5}"}],
        "structuredContent": {"n": 5}, "isError": false}});
    assert_eq!(called, expected);
}

#[tokio::test]
async fn definitions_are_those_of_the_other_door() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    for names in ["native", "safe"] {
        let rest = owner.get(&format!("/v1/tools?format=mcp&names={names}")).await.expect_ok();
        let query = owner.with_query(&format!("?names={names}"));
        let mcp = query.legacy_request(&message("tools/list", json!({}))).await.expect_ok();
        assert_eq!(rest["tools"], mcp["result"]["tools"]);
        assert_eq!(mcp["result"]["tools"][4]["name"] == "notes.append", names == "native");
    }
    for (query, told) in [
        ("?names=short", "unknown names `short`; use safe or native"),
        ("?name=safe", "the query: unknown parameter `name`; use one of names, mode"),
    ] {
        let reply = owner.with_query(query).legacy_request(&message("tools/list", json!({}))).await;
        assert_eq!(reply.error(), (400, "invalid_request".to_owned(), told.to_owned()));
    }
}

#[tokio::test]
async fn a_definition_keeps_what_its_source_wrote() {
    let definition = json!({
        "name": "kept", "title": "Kept", "description": "d",
        "inputSchema": {"$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object", "properties": {"z": {"$ref": "#/$defs/x"}, "a": {}},
            "$defs": {"x": {"type": "number", "exclusiveMinimum": 1.5}},
            "additionalProperties": false, "x-vendor": [null]},
        "outputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": true, "openWorldHint": false},
        "_meta": {"example.com/a": {"b": 1}},
    });
    let mut tool = tools::received_tool(&definition);
    tool.traits.trusted_annotations = true;
    let server = FixtureServer::with_offers(vec![tools::tool_offer(
        tool,
        testkit::executor::echo_executor(),
    )])
    .await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let list = ann.legacy_request(&message("tools/list", json!({}))).await.expect_ok();
    assert_eq!(list["result"]["tools"][0].to_string(), definition.to_string());
}

#[tokio::test]
async fn pages_together_are_the_list() {
    let server = FixtureServer::with_offers(tools::many_offers(2_500)).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for modern in [false, true] {
        let (mut all, mut sizes, mut params) = (Vec::new(), Vec::new(), json!({}));
        loop {
            let reply = if modern {
                ann.modern_request("tools/list", params).await.expect_ok()
            } else {
                ann.legacy_request(&message("tools/list", params)).await.expect_ok()
            };
            let page = reply["result"]["tools"].as_array().unwrap();
            sizes.push(page.len());
            all.extend(page.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
            let Some(next) = reply["result"]["nextCursor"].as_str() else { break };
            params = json!({ "cursor": next });
        }
        assert_eq!(sizes, [1_000, 1_000, 500]);
        assert_eq!(all, (0..2_500).map(|i| format!("many.t{i:05}")).collect::<Vec<_>>());
    }
    for cursor in ["nothing", ""] {
        let reply = ann
            .legacy_request(&message("tools/list", json!({ "cursor": cursor })))
            .await
            .expect_ok();
        assert_eq!(reply["error"]["code"], -32_602);
        let told = "the tool of the cursor no longer exists; list from the beginning";
        assert_eq!(reply["error"]["message"], told);
    }
}

#[tokio::test]
async fn without_a_session_there_is_no_stream_and_nothing_to_end() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for client in [ann.clone(), ann.with_header("mcp-protocol-version", "2026-07-28")] {
        for reply in [client.get("/mcp").await, client.delete("/mcp").await] {
            assert_eq!((reply.status.as_u16(), reply.header("allow")), (405, Some("POST")));
        }
    }
}

#[tokio::test]
async fn lists_without_such_sources_are_empty_and_other_methods_unknown() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for (method, member) in [
        ("prompts/list", "prompts"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
    ] {
        let reply = ann.legacy_request(&message(method, json!({}))).await.expect_ok();
        assert_eq!(reply["result"], json!({ member: [] }), "{method}");
    }
    for method in ["prompts/get", "resources/read", "completion/complete"] {
        let reply = ann.legacy_request(&message(method, json!({}))).await.expect_ok();
        assert_eq!(reply["error"]["code"], -32_602, "{method}: {reply}");
    }
    for method in ["logging/setLevel", "tasks/list", "no/such"] {
        let reply = ann.legacy_request(&message(method, json!({}))).await.expect_ok();
        assert_eq!(reply["error"]["code"], -32_601, "{method}: {reply}");
    }
}
