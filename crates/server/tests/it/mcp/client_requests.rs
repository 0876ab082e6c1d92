//! Tests of requests from a tool to its client, in both eras.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tool::call_outcome::CallStatus;
use tool::{Json, PermissionLevel};

use crate::support::client::{message, modern_message};
use crate::support::executors::AskingExecutor;
use crate::support::{Client, FixtureServer, Reply, tools};

async fn server() -> FixtureServer {
    let samples = AskingExecutor { method: "sampling/createMessage", params: Json::empty_object() };
    FixtureServer::with_offers(vec![
        tools::tool_offer(tools::test_tool("asks"), AskingExecutor::elicitation()),
        tools::tool_offer(tools::test_tool("other"), AskingExecutor::elicitation()),
        tools::tool_offer(tools::test_tool("samples"), Arc::new(samples)),
    ])
    .await
}

fn call() -> Value {
    message("tools/call", json!({"name": "asks", "arguments": {"n": 1}}))
}

fn text(message: &Value) -> String {
    message["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_session_is_asked_on_the_stream_of_its_call() {
    let server = server().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let ann = ann.open_session(json!({"elicitation": {}})).await;
    let mut stream = ann.legacy_stream(&call()).await;
    let question = stream.next().await;
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"], json!({"message": "which?", "requestedSchema": {}}));
    let answer = json!({"jsonrpc": "2.0", "id": question["id"],
        "result": {"action": "accept", "content": {"a": 1.5}}});
    assert_eq!(ann.legacy_request(&answer).await.status, 202);
    let result = stream.next().await;
    assert_eq!(result["id"], 1);
    assert_eq!(result["result"]["structuredContent"], answer["result"]);
    assert_eq!(stream.next().await, Value::Null);
    assert_eq!((server.recorded_intents().len(), server.recorded_ends().len()), (1, 1));
}

#[tokio::test]
async fn a_refusal_is_told_to_the_tool() {
    let server = server().await;
    let ann = server
        .agent_client("ann", PermissionLevel::User)
        .await
        .open_session(json!({"elicitation": {}}))
        .await;
    let mut stream = ann.legacy_stream(&call()).await;
    let id = stream.next().await["id"].clone();
    let error = json!({"code": -1, "message": "x".repeat(5_000)});
    let answer = json!({"jsonrpc": "2.0", "id": id, "error": error});
    assert_eq!(ann.legacy_request(&answer).await.status, 202);
    let told = text(&stream.next().await);
    assert_eq!(told, format!("the client refused: {} (-1)", "x".repeat(512)));
    // An answer that comes twice, or to nothing, is passed over.
    assert_eq!(ann.legacy_request(&answer).await.status, 202);
}

/// Only the session that received a request can answer it, even if others know its ID.
#[tokio::test]
async fn nobody_else_answers() {
    let server = server().await;
    let key = server.agent_client("ann", PermissionLevel::User).await;
    let can = json!({"elicitation": {}});
    let (ann, other) = (key.open_session(can.clone()).await, key.open_session(can.clone()).await);
    let eve = server.agent_client("eve", PermissionLevel::User).await.open_session(can).await;
    let mut stream = ann.legacy_stream(&call()).await;
    let id = stream.next().await["id"].clone();
    let answer = |word: &str| json!({"jsonrpc": "2.0", "id": id, "result": {"action": word}});
    assert_eq!(other.legacy_request(&answer("other")).await.status, 202);
    assert_eq!(eve.legacy_request(&answer("eve")).await.status, 202);
    assert_eq!(key.legacy_request(&answer("none")).await.status, 400);
    assert_eq!(
        ann.with_header("authorization", &eve.bearer())
            .legacy_request(&answer("stolen"))
            .await
            .status,
        404
    );
    assert_eq!(ann.legacy_request(&answer("ann")).await.status, 202);
    assert_eq!(stream.next().await["result"]["structuredContent"], json!({"action": "ann"}));
}

#[tokio::test]
async fn only_what_was_declared_is_asked() {
    let server = server().await;
    let key = server.agent_client("ann", PermissionLevel::User).await;
    let samples = message("tools/call", json!({"name": "samples"}));
    let elicits = key.open_session(json!({"elicitation": {}})).await;
    let reply = elicits.legacy_request(&samples).await;
    assert_eq!(text(&reply.expect_ok()), "the client is unreachable");
    // A client without the capability gets an error that names it.
    for client in [key.open_session(json!({})).await, key] {
        let told = text(&client.legacy_request(&call()).await.expect_ok());
        assert_eq!(
            told,
            "upstream_failed: the tool requests input, which this client does not \
            support"
        );
    }
}

#[tokio::test]
async fn a_question_ends_with_its_call() {
    let server = server().await;
    let ann = server
        .agent_client("ann", PermissionLevel::User)
        .await
        .open_session(json!({"elicitation": {}}))
        .await;
    let mut stream = ann.legacy_stream(&call()).await;
    let id = stream.next().await["id"].clone();
    drop(stream);
    server.wait_until_drained().await;
    assert_eq!(server.recorded_ends()[0].status, CallStatus::Abandoned);
    let answer = json!({"jsonrpc": "2.0", "id": id, "result": {}});
    assert_eq!(ann.legacy_request(&answer).await.status, 202);
}

fn declares(message: &mut Value, capabilities: Value) {
    message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
}

/// A call of a stateless client that accepts requests.
async fn stateless(client: &Client, mut params: Value) -> Reply {
    if params.get("name").is_none() {
        params["name"] = json!("asks");
    }
    if params.get("arguments").is_none() {
        params["arguments"] = json!({"n": 1});
    }
    let mut message = modern_message("tools/call", params);
    declares(&mut message, json!({"elicitation": {}}));
    client.modern_message(&message).await
}

/// The state that came with the questions.
async fn state(client: &Client) -> Value {
    stateless(client, json!({})).await.expect_ok()["result"]["requestState"].clone()
}

#[tokio::test]
async fn a_stateless_client_comes_back_with_the_answers() {
    let server = server().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let asked = stateless(&ann, json!({})).await.expect_ok()["result"].clone();
    assert_eq!(asked["resultType"], "input_required");
    let question = json!({"method": "elicitation/create",
        "params": {"message": "which?", "requestedSchema": {}}});
    assert_eq!(asked["inputRequests"], json!({"q": question}));
    let answers = json!({"q": {"action": "accept", "content": {"a": 1.5}}});
    let state = &asked["requestState"];
    assert!(!state.as_str().unwrap().contains("mine"));
    let params = json!({"requestState": state, "inputResponses": answers});
    let result = stateless(&ann, params).await.expect_ok()["result"].clone();
    assert_eq!(result["resultType"], "complete");
    let first = server.recorded_intents()[0].call_id;
    let expected = json!({"state": "mine", "answers": answers, "continues": first});
    assert_eq!(result["structuredContent"], expected);
    let ends: Vec<_> = server.recorded_ends().iter().map(|end| end.status).collect();
    assert_eq!(ends, [CallStatus::Pending, CallStatus::Succeeded]);
    assert_eq!(server.recorded_intents()[1].continues_call, Some(first));
}

/// An unanswered request is sent, whatever a client claims to answer.
#[tokio::test]
async fn answers_without_a_state_answer_nothing() {
    let server = server().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let reply =
        stateless(&ann, json!({"inputResponses": {"q": {"action": "accept"}}})).await.expect_ok();
    assert_eq!(reply["result"]["resultType"], "input_required");
}

/// Equal arguments in another notation are equal.
#[tokio::test]
async fn a_state_is_bound_to_what_the_arguments_mean() {
    let server = server().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let state = state(&ann).await;
    let mut message = modern_message("tools/call", json!({"name": "asks", "requestState": state}));
    declares(&mut message, json!({"elicitation": {}}));
    message["params"]["arguments"] = json!("HERE");
    let text = message.to_string().replace("\"HERE\"", "{ \"n\" : 1 }");
    let client = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "asks"),
    ]
    .iter()
    .fold(ann, |client, (name, value)| client.with_header(name, value));
    let reply = client.send(hyper::Method::POST, "/mcp", text.into()).await.expect_ok();
    assert_eq!(reply["result"]["structuredContent"]["state"], "mine", "{reply}");
}

#[tokio::test]
async fn a_state_that_does_not_hold_begins_no_record() {
    let server = server().await;
    let (ann, eve) = (
        server.agent_client("ann", PermissionLevel::User).await,
        server.agent_client("eve", PermissionLevel::User).await,
    );
    let refused = |reply: Reply, told: &'static str| {
        let error = reply.expect_ok()["error"].clone();
        assert_eq!(error["code"], -32_602, "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("the `requestState` {told}")), "{message}");
    };
    let good = state(&ann).await;
    let frames = server.ledger.all_records().len();
    let with = |state: &Value| json!({"requestState": state, "inputResponses": {}});
    refused(stateless(&eve, with(&good)).await, "is invalid: it was modified");
    let mut bytes = good.as_str().unwrap().as_bytes().to_vec();
    bytes[30] = if bytes[30] == b'A' { b'B' } else { b'A' };
    for bad in [std::str::from_utf8(&bytes).unwrap(), "", "x", &"A".repeat(200_000)] {
        refused(stateless(&ann, with(&json!(bad))).await, "is invalid: it was modified");
    }
    let mut other = with(&good);
    other["name"] = json!("other");
    refused(stateless(&ann, other).await, "belongs to another call");
    let mut other = with(&good);
    other["arguments"] = json!({"n": 2});
    refused(stateless(&ann, other).await, "belongs to another call");
    refused(stateless(&ann.with_endpoint("/mcp/s"), with(&good)).await, "belongs to another call");
    for (params, told) in [
        (json!({"requestState": 5}), "`params.requestState` is number; expected a string"),
        (
            json!({"requestState": good, "inputResponses": []}),
            "`params.inputResponses` is array; expected an object",
        ),
    ] {
        assert_eq!(stateless(&ann, params).await.expect_ok()["error"]["message"], told);
    }
    assert_eq!(server.ledger.all_records().len(), frames);
    // Positive control: it still holds, once.
    let done = stateless(&ann, with(&good)).await.expect_ok();
    assert_eq!(done["result"]["structuredContent"]["state"], "mine");
    let frames = server.ledger.all_records().len();
    refused(stateless(&ann, with(&good)).await, "was already used");
    assert_eq!(server.ledger.all_records().len(), frames);
}

#[tokio::test]
async fn a_state_expires() {
    let server = server().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let (early, late) = (state(&ann).await, state(&ann).await);
    server.clock.advance(Duration::from_secs(599));
    let done = stateless(&ann, json!({"requestState": early})).await.expect_ok();
    assert_eq!(done["result"]["structuredContent"]["state"], "mine");
    server.clock.advance(Duration::from_secs(2));
    let error = stateless(&ann, json!({"requestState": late})).await.expect_ok()["error"].clone();
    assert_eq!(error["message"], "the `requestState` has expired; call again without it");
}

#[tokio::test]
async fn a_stateless_client_that_cannot_be_asked_is_told_what_to_declare() {
    let server = server().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let mut message = modern_message("tools/call", json!({"name": "samples"}));
    declares(&mut message, json!({"elicitation": {}}));
    let reply = ann.modern_message(&message).await;
    let error = reply.json()["error"].clone();
    assert_eq!((reply.status.as_u16(), &error["code"]), (400, &json!(-32_021)));
    assert_eq!(error["data"], json!({"requiredCapabilities": {"sampling": {}}}));
}

/// A state that is too large to be opened again is not sent.
#[tokio::test]
async fn a_source_that_wants_too_much_back_is_refused() {
    let wants = |bytes: usize| {
        Arc::new(testkit::executor::MockExecutor::new(move |_| {
            let question = json!({"q": {"method": "roots/list", "params": {}}});
            let (requests, resume) = (Json::encode(&question), vec![b'x'; bytes].into());
            Ok(tool::ExecutionState::Pending(tool::PendingReason::Input {
                input_requests: requests,
                state: resume,
            }))
        }))
    };
    let server = FixtureServer::with_offers(vec![
        tools::tool_offer(tools::test_tool("much"), wants(64 << 10)),
        tools::tool_offer(tools::test_tool("more"), wants((64 << 10) + 1)),
    ])
    .await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let ask = |name: &'static str, state: Option<Value>| {
        let mut message = modern_message("tools/call", json!({"name": name}));
        declares(&mut message, json!({"roots": {}}));
        if let Some(state) = state {
            message["params"]["requestState"] = state;
        }
        let ann = ann.clone();
        async move { ann.modern_message(&message).await.expect_ok() }
    };
    let state = ask("much", None).await["result"]["requestState"].clone();
    assert_eq!(ask("much", Some(state)).await["result"]["resultType"], "input_required");
    assert_eq!(
        text(&ask("more", None).await),
        "internal: the tool's input request cannot be \
        stored"
    );
}
