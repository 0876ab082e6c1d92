//! Answers that try to be more than data.

use std::sync::Arc;

use serde_json::{Value, json};
use testkit::data::rows;
use testkit::executor::Scripted;
use tool::{Body, Json, Level, Outcome, Safety, Step};

use crate::support::client::{Reply, message};
use crate::support::{Client, Server, tools};

const CONTROL: &str = "The weather in Paris is fine.";

/// Gives the text of its argument back, as an MCP server would.
fn says() -> tool::Offer {
    let script = |args: Json| {
        let text = args.get("text").unwrap();
        let kind = Json::of("text");
        let block = Json::fields([("type", &kind), ("text", &text)]);
        let body = Body::Mcp(Json::fields([("content", &Json::array([&block]))]));
        Ok(Step::Done(Outcome { body, is_error: false }))
    };
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    tools::offer(testkit::tool("says", "Says it.", &schema), Arc::new(Scripted::new(script)))
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
        client.legacy(&message("tools/call", call(text))).await,
        client.legacy(&message("tools/call", with_token)).await,
        client.modern("tools/call", call(text)).await,
    ] {
        let [answer] = reply.messages().try_into().expect("one message and no other");
        let text = answer["result"]["content"][0]["text"].as_str().unwrap().to_owned();
        assert_eq!(answer["result"]["isError"], Value::Null, "{answer}");
        seen.push((text, heads(&reply)));
    }
    let reply = client.call("says", json!({"text": text})).await;
    let heads = heads(&reply);
    seen.push((reply.good()["result"].as_str().unwrap().to_owned(), heads));
    seen
}

#[tokio::test]
async fn poisoned_results_are_only_data() {
    let rows = rows("attacks/poisoned_results.jsonl");
    let dangerous = tools::with("dangerous", |t| t.traits.safety = Safety::Dangerous);
    let offers = vec![says(), tools::offer(dangerous, testkit::executor::echo())];
    let server = Server::of(offers).await;
    let ann = server.agent("ann", Level::User).await;
    let control = through_every_door(&ann, CONTROL).await;
    assert!(control.iter().all(|(text, _)| text == CONTROL));
    let first = server.intents().len();
    let (mut tried, mut changed) = (0, 0);
    for row in &rows {
        let text = row["result_text"].as_str().unwrap();
        let shown = Json::of(text).made_visible().map(|json| json.read::<String>().unwrap());
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
    // Nothing of it reached a decision or the record: every call looks as the control's.
    let facts = |intent: &tool::Intent| {
        (intent.caller.clone(), intent.tool.clone(), intent.definition, intent.reason.clone())
    };
    let intents = server.intents();
    assert_eq!(intents.len(), first * (tried + 1));
    assert!(intents.iter().all(|intent| facts(intent) == facts(&intents[0])));
    let (_, code, _) = ann.call("dangerous", json!({})).await.error();
    assert_eq!((code.as_str(), server.refusals().len()), ("approval_required", 1));
}
