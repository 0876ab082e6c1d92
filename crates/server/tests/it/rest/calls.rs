//! Tests of calls over REST: `/v1/calls`.

use std::time::Duration;

use gateway::{ConcurrencyLimits, GatewayOptions};
use hyper::Method;
use serde_json::{Value, json};
use tool::{Durability, PermissionLevel};

use crate::support::{FixtureServer, Gate, ServerSetup, tools};

/// Bytes of a body that is one too large.
const TOO_LARGE: usize = (2 << 20) + 1;

#[tokio::test]
async fn a_call_is_answered_and_can_be_looked_at() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let mut reply = ann.call_tool("notes.append", json!({"n": 5, "text": "a"})).await.expect_ok();
    let id = reply["call_id"].as_str().unwrap().to_owned();
    reply.as_object_mut().unwrap().remove("call_id");
    let expected = json!({"tool": "notes.append", "status": "succeeded",
        "result": {"n": 5, "text": "a"}, "is_error": false, "elapsed_ms": 0});
    assert_eq!(reply, expected);
    let call = ann.get(&format!("/v1/calls/{id}")).await.expect_ok();
    let shown = |field: &str| call[field].clone();
    assert_eq!(shown("call_id"), id);
    assert_eq!(shown("status"), "succeeded");
    assert_eq!((shown("tool"), shown("source")), (json!("notes.append"), json!("s")));
    assert_eq!(shown("started"), "2001-09-09T01:46:40.000Z");
    let kinds: Vec<_> =
        call["records"].as_array().unwrap().iter().map(|r| r["kind"].clone()).collect();
    assert_eq!(kinds, ["intent", "outcome"]);
}

#[tokio::test]
async fn an_alias_and_absent_arguments_do() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for body in [
        json!({"tool": "notes_append"}),
        json!({"tool": "notes.append", "arguments": null}),
        json!({"tool": "notes_append", "arguments": {}, "timeout_ms": 1_000}),
    ] {
        let reply = ann.post("/v1/calls", &body).await.expect_ok();
        assert_eq!((&reply["tool"], &reply["result"]), (&json!("notes.append"), &json!({})));
    }
    let recorded = server.recorded_intents();
    assert!(recorded.iter().all(|intent| intent.tool_key.name.as_str() == "notes.append"));
}

#[tokio::test]
async fn an_answer_of_mcp_is_shown_as_a_value_and_as_it_came() {
    let server = FixtureServer::new().await;
    let reply = server
        .agent_client("ann", PermissionLevel::User)
        .await
        .call_tool("mcp_result", json!({}))
        .await
        .expect_ok();
    assert_eq!(reply["result"].to_string(), r#"{"n":1.0}"#);
    let sent: Value = serde_json::from_str(tools::MCP_RESULT).unwrap();
    assert_eq!(reply["content"], sent["content"]);
    let failed = server
        .agent_client("ann", PermissionLevel::User)
        .await
        .call_tool("says_error", json!({}))
        .await
        .expect_ok();
    assert_eq!((&failed["status"], &failed["is_error"]), (&json!("failed"), &json!(true)));
    assert_eq!(failed["result"], "no such note");
}

#[tokio::test]
async fn what_does_not_run_says_why() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let dangerous = "the tool is dangerous and needs an approval";
    let destructive = "the tool is destructive and needs an approval";
    for (tool, arguments, status, code, told) in [
        (
            "notes.append",
            json!({"n": 12}),
            400,
            "invalid_arguments",
            "`/n`: 12 is greater than the maximum of 10",
        ),
        (
            "notes.append",
            json!([]),
            400,
            "invalid_arguments",
            "the arguments: expected object, found array",
        ),
        ("dangerous", json!({}), 403, "approval_required", dangerous),
        ("destructive", json!({}), 403, "approval_required", destructive),
        ("nothing", json!({}), 404, "unknown_tool", "unknown tool `nothing`"),
        ("no\nsuch", json!({}), 404, "unknown_tool", "unknown tool `no\\nsuch`"),
        ("fails", json!({}), 502, "upstream_failed", "it answered 500"),
    ] {
        let reply = ann.call_tool(tool, arguments).await;
        assert_eq!(reply.error(), (status, code.to_owned(), told.to_owned()), "{tool}");
        let id = reply.json()["error"]["call_id"].as_str().unwrap().to_owned();
        let call = ann.get(&format!("/v1/calls/{id}")).await.expect_ok();
        assert_eq!(call["code"], code);
        let ran = code == "upstream_failed";
        assert_eq!(call["status"], if ran { "failed" } else { "refused" });
    }
}

#[tokio::test]
async fn hidden_and_unknown_are_one_answer() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for (hidden, unknown) in [("needs.owner", "needs.nobody"), ("needs_owner", "needs_nobody")] {
        // The arguments are invalid too, but an error about them would reveal the hidden schema.
        let a = ann.call_tool(hidden, json!({"n": "x"})).await;
        let b = ann.call_tool(unknown, json!({"n": "x"})).await;
        let id = |reply: &Value| reply["error"]["call_id"].as_str().unwrap().to_owned();
        let told = a.text().replace(hidden, unknown).replace(&id(&a.json()), &id(&b.json()));
        assert_eq!((a.status, told.as_str()), (b.status, b.text()));
        assert_eq!(b.error().1, "unknown_tool");
        let headers = |reply: &crate::support::Reply| {
            let mut headers = reply.headers.clone();
            headers.remove("date");
            headers.remove("content-length");
            headers
        };
        assert_eq!(headers(&a), headers(&b));
    }
    let seen = server.owner_client().await.call_tool("needs_owner", json!({})).await.expect_ok();
    assert_eq!(seen["tool"], "needs.owner");
}

#[tokio::test]
async fn bodies_that_cannot_be_read_are_told_where() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let send = |body: String| {
        let ann = ann.clone();
        async move { ann.send(Method::POST, "/v1/calls", body.into()).await.error() }
    };
    for (body, told) in [
        ("{", "the body: EOF while parsing an object at line 1 column 1"),
        (r#"{"tool":"a","tool":"b"}"#, "the body: key `tool` occurs twice at line 1 column 18"),
        (r#"{"tool":5}"#, "the body: invalid type: integer `5`, expected a string"),
        ("{}", "the body: missing field `tool`"),
        (
            r#"{"tool":"a","tol":1}"#,
            "the body: unknown field `tol`, expected one of `tool`, `arguments`, `timeout_ms`",
        ),
        (r#"{"tool":"a","arguments":{"a":1,"a":2}}"#, "the body: key `a` occurs twice"),
        ("\u{feff}{}", "the body: expected value"),
    ] {
        let (status, code, message) = send(body.to_owned()).await;
        assert_eq!((status, code.as_str()), (400, "invalid_request"), "{body}");
        assert!(message.starts_with(told), "{message}");
    }
    let deep = format!(r#"{{"tool":"a","arguments":{}1{}}}"#, "[".repeat(70), "]".repeat(70));
    assert!(send(deep).await.2.contains("nested deeper than 65 levels"));
    assert_eq!(server.ledger.all_records(), []);
}

#[tokio::test]
async fn what_is_too_large_is_told_so() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let body = |size: usize| {
        let empty = r#"{"tool":"notes.append","arguments":{"t":""}}"#.len();
        json!({"tool": "notes.append", "arguments": {"t": "x".repeat(size - empty)}}).to_string()
    };
    assert_eq!(body(1_000).len(), 1_000);
    let send = |size| {
        let (ann, body) = (ann.clone(), body(size));
        async move { ann.send(Method::POST, "/v1/calls", body.into()).await }
    };
    let told = "the body is larger than 2097152 bytes".to_owned();
    assert_eq!(send(TOO_LARGE).await.error(), (413, "too_large".to_owned(), told));
    let (status, code, told) = send(TOO_LARGE - 1).await.error();
    assert_eq!((status, code.as_str()), (400, "invalid_arguments"));
    assert!(told.ends_with("the maximum is 1048576"), "{told}");
    assert_eq!(send(1 << 20).await.status, 200);
}

#[tokio::test]
async fn too_much_at_once_is_told_at_once() {
    let gate = Gate::new();
    let bounds = ConcurrencyLimits { total: 1, per_key: 1, per_source: 1, per_key_and_source: 1 };
    let options = GatewayOptions { concurrency: bounds, ..GatewayOptions::default() };
    let offers = vec![tools::tool_offer(tools::test_tool("waits"), gate.clone())];
    let server =
        FixtureServer::with_setup(ServerSetup { offers, options, ..ServerSetup::default() }).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let first = ann.call_tool("waits", json!({}));
    let second = async {
        gate.entered().await;
        let reply = ann.call_tool("waits", json!({})).await;
        gate.release_call();
        reply
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.expect_ok()["result"], "opened");
    assert_eq!((second.error().0, second.error().1.as_str()), (429, "busy"));
    assert_eq!(second.header("retry-after"), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn the_callers_own_limit_shortens_the_tools() {
    let own = tools::tool_with("waits", |t| t.traits.timeout = Some(Duration::from_secs(7)));
    let server = FixtureServer::with_offers(vec![tools::tool_offer(own, Gate::new())]).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for (timeout_ms, told) in [(20, "20ms"), (2_000, "2s"), (60_000, "7s")] {
        let body = json!({"tool": "waits", "timeout_ms": timeout_ms});
        let told = format!("Tool execution timed out ({told}).");
        let reply = ann.post("/v1/calls", &body).await;
        assert_eq!(reply.error(), (504, "timeout".to_owned(), told));
    }
}

#[tokio::test]
async fn what_cannot_be_recorded_does_not_run() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    server.ledger.fail_from(Some(Durability::Written));
    let (status, code, _) = ann.call_tool("notes.append", json!({})).await.error();
    assert_eq!((status, code.as_str()), (503, "record_unavailable"));
    server.ledger.fail_from(None);
    ann.call_tool("notes.append", json!({})).await.expect_ok();
}

#[tokio::test]
async fn anothers_call_is_no_call() {
    let server = FixtureServer::new().await;
    let (ann, bob) = (
        server.agent_client("ann", PermissionLevel::User).await,
        server.agent_client("bob", PermissionLevel::User).await,
    );
    for tool in ["notes.append", "nothing"] {
        let reply = ann.call_tool(tool, json!({})).await.json();
        let id = reply.get("call_id").unwrap_or(&reply["error"]["call_id"]).as_str().unwrap();
        let absent = "01890000-0000-7000-8000-000000000000";
        let (hidden, none) = (
            bob.get(&format!("/v1/calls/{id}")).await,
            bob.get(&format!("/v1/calls/{absent}")).await,
        );
        assert_eq!(none.error(), (404, "not_found".to_owned(), format!("no call `{absent}`")));
        assert_eq!(hidden.text().replace(id, absent), none.text());
        // Positive controls: ann herself, from another key, and one with the right.
        for client in [
            ann.clone(),
            server.agent_client("ann", PermissionLevel::Guest).await,
            server.owner_client().await,
        ] {
            assert_eq!(client.get(&format!("/v1/calls/{id}")).await.expect_ok()["call_id"], id);
        }
    }
    let (status, _, told) = bob.get("/v1/calls/nonsense").await.error();
    assert_eq!((status, told.as_str()), (404, "no call `nonsense`"));
}

#[tokio::test]
async fn an_answer_comes_in_the_research_registry_envelope_on_request() {
    let server = FixtureServer::new().await;
    let agent = server.agent_client("ann", PermissionLevel::User).await;
    let ask = async |tool: &str| {
        agent
            .post("/v1/calls?envelope=tool_output", &json!({"tool": tool, "arguments": {"n": 1}}))
            .await
    };
    let mut good = ask("notes.append").await.expect_ok();
    for (key, value) in [("elapsed_ms", json!(0)), ("call_id", json!(""))] {
        assert!(good["metadata"].get(key).is_some(), "{good}");
        good["metadata"][key] = value;
    }
    let expected = json!({"protocol_version": 1, "ok": true, "status": "success", "output": {"n": 1},
        "side_effects_declared": ["read_only"], "requires_approval": false,
        "metadata": {"elapsed_ms": 0, "call_id": ""}});
    assert_eq!(good, expected);
    // Exceptions of the research registry are errors of the interface.
    assert_eq!(ask("absent").await.error().1, "unknown_tool");
    let odd = agent.post("/v1/calls?envelope=odd", &json!({"tool": "notes.append"})).await;
    assert_eq!(odd.error().0, 400);
    // The same as text, for people.
    let body = json!({"tool": "notes.append", "arguments": {"n": 1}});
    let reply = agent.post("/v1/calls?envelope=to_human", &body).await;
    assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!((reply.status.as_u16(), reply.text()), (200, r#"{"n":1}"#));
    let both = "/v1/calls?envelope=tool_output&format=openai";
    assert_eq!(agent.post(both, &json!({})).await.error().0, 400);
    let list = agent.get("/v1/tools?envelope=list_tools").await.expect_ok();
    let tool = list["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "notes.append");
    let expected = json!({"name": "notes.append", "description": "The tool notes.append.",
        "category": "", "parameters": {"n": {"type": "integer", "maximum": 10, "required": false}},
        "mcp_backed": false, "side_effects": ["read_only"]});
    assert_eq!(*tool.unwrap(), expected);
    assert_eq!(agent.get("/v1/tools?envelope=list_tools&format=mcp").await.error().0, 400);
}
