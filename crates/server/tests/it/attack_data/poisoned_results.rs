//! Tests that poisoned tool results stay data.

use std::sync::Arc;

use serde_json::{Value, json};
use testkit::executor::MockExecutor;
use testkit::shared_data::read_rows;
use tool::{ExecutionState, Json, Outcome, OutcomeBody, PermissionLevel, SafetyLevel};

use crate::support::client::{Reply, message};
use crate::support::{Client, FixtureServer, tools};

const CONTROL: &str = "The weather in Paris is fine.";

/// Gives the text of its argument back, as an MCP server would.
fn echoing_offer() -> tool::Offer {
    let script = |args: Json| {
        let text = args.get("text").unwrap();
        let kind = Json::encode("text");
        let block = Json::object_from([("type", &kind), ("text", &text)]);
        let body = OutcomeBody::Mcp(Json::object_from([("content", &Json::array_of([&block]))]));
        Ok(ExecutionState::Completed(Outcome { body, is_error: false }))
    };
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    tools::tool_offer(
        testkit::read_only_tool("says", "Says it.", &schema),
        Arc::new(MockExecutor::new(script)),
    )
}

fn call(text: &str) -> Value {
    json!({"name": "says", "arguments": {"text": text}})
}

/// The names of an answer's headers: nothing of a result may become one.
fn heads(reply: &Reply) -> Vec<String> {
    reply.headers.keys().map(ToString::to_string).collect()
}

/// One answer through each door; the text that arrived, and the headers it came with.
async fn through_every_door(client: &Client, text: &str) -> Vec<(String, Vec<String>)> {
    let mut with_token = call(text);
    with_token["_meta"] = json!({"progressToken": 1});
    let mut seen = Vec::new();
    for reply in [
        client.legacy_request(&message("tools/call", call(text))).await,
        client.legacy_request(&message("tools/call", with_token)).await,
        client.modern_request("tools/call", call(text)).await,
    ] {
        let [answer] = reply.messages().try_into().expect("one message and no other");
        let text = answer["result"]["content"][0]["text"].as_str().unwrap().to_owned();
        assert_eq!(answer["result"]["isError"], Value::Null, "{answer}");
        seen.push((text, heads(&reply)));
    }
    let reply = client.call_tool("says", json!({"text": text})).await;
    let heads = heads(&reply);
    seen.push((reply.expect_ok()["result"].as_str().unwrap().to_owned(), heads));
    seen
}

#[tokio::test]
async fn poisoned_results_are_only_data() {
    let rows = read_rows("attacks/poisoned_results.jsonl");
    let dangerous = tools::tool_with("dangerous", |t| t.traits.safety = SafetyLevel::Dangerous);
    let offers =
        vec![echoing_offer(), tools::tool_offer(dangerous, testkit::executor::echo_executor())];
    let server = FixtureServer::with_offers(offers).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let control = through_every_door(&ann, CONTROL).await;
    assert!(control.iter().all(|(text, _)| text == CONTROL));
    let first = server.recorded_intents().len();
    let (mut tried, mut changed) = (0, 0);
    for row in &rows {
        let text = row["result_text"].as_str().unwrap();
        let shown =
            Json::encode(text).escape_invisible().map(|json| json.decode::<String>().unwrap());
        changed += usize::from(shown.is_some());
        let shown = shown.as_deref().unwrap_or(text);
        for ((seen, heads), (_, usual)) in through_every_door(&ann, text).await.iter().zip(&control)
        {
            let redacted = seen.contains("[REDACTED:");
            assert!(seen == shown || redacted, "{}: {seen}", row["id"]);
            let hidden = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
            assert!(!seen.contains(hidden), "{}", row["id"]);
            assert_eq!(heads, usual, "{}", row["id"]);
        }
        tried += 1;
    }
    assert!(tried > 400 && changed > 0, "{tried} {changed}");
    // No result affects a decision or the record: every call equals that of the control.
    let facts = |intent: &tool::IntentRecord| {
        (
            intent.caller.clone(),
            intent.tool_key.clone(),
            intent.definition_digest,
            intent.reason.clone(),
        )
    };
    let intents = server.recorded_intents();
    assert_eq!(intents.len(), first * (tried + 1));
    assert!(intents.iter().all(|intent| facts(intent) == facts(&intents[0])));
    let (_, code, _) = ann.call_tool("dangerous", json!({})).await.error();
    assert_eq!((code.as_str(), server.recorded_refusals().len()), ("approval_required", 1));
}
