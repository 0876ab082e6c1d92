//! Tests of model messages with calls that need an approval, before and after the decision.

use std::time::Duration;

use formats::ProviderFormat;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{ApprovalServer, empty_object};

/// A call as a model asks for it: the provider's id, the tool, and its argument.
type Call = (&'static str, &'static str, u64);

/// Response of a provider's model.
fn message(format: ProviderFormat, calls: &[Call]) -> Value {
    let each = |write: fn(&str, &str, Value) -> Value| -> Value {
        calls.iter().map(|(id, name, n)| write(id, name, json!({"n": n}))).collect()
    };
    let chat = |id: &str, name: &str, args: Value| json!({"id": id, "type": "function", "function": {"name": name, "arguments": args.to_string()}});
    match format {
        ProviderFormat::OpenaiChat | ProviderFormat::OpenaiChatStrict => {
            json!({"role": "assistant", "tool_calls": each(chat)})
        }
        ProviderFormat::OpenaiResponses | ProviderFormat::OpenaiResponsesStrict => {
            json!({"output": each(|id, name, args| {
            json!({"type": "function_call", "call_id": id, "name": name, "arguments": args.to_string()})})})
        }
        ProviderFormat::Anthropic => json!({"role": "assistant", "content": each(|id, name, args| {
            json!({"type": "tool_use", "id": id, "name": name, "input": args})})}),
        ProviderFormat::Gemini | ProviderFormat::GeminiPerTool => {
            json!({"role": "model", "parts": each(|_, name, args| {
            json!({"functionCall": {"name": name, "args": args}})})})
        }
        ProviderFormat::Ollama => {
            json!({"message": {"role": "assistant", "tool_calls": each(|_, name, args| {
            json!({"function": {"name": name, "arguments": args}})})}})
        }
        ProviderFormat::Mcp => each(|_, name, args| json!({"name": name, "arguments": args})),
    }
}

/// Location of a call's provider name in the message with the results, and the name.
fn named(format: ProviderFormat) -> (&'static str, &'static str) {
    match format {
        ProviderFormat::OpenaiChat | ProviderFormat::OpenaiChatStrict => ("/tool_call_id", "c1"),
        ProviderFormat::OpenaiResponses | ProviderFormat::OpenaiResponsesStrict => {
            ("/call_id", "c1")
        }
        ProviderFormat::Anthropic => ("/content/0/tool_use_id", "c1"),
        ProviderFormat::Gemini | ProviderFormat::GeminiPerTool => {
            ("/parts/0/functionResponse/name", "m2_rm")
        }
        ProviderFormat::Ollama => ("/tool_name", "m2_rm"),
        ProviderFormat::Mcp => ("/content/0/text", r#"{"n":7}"#),
    }
}

fn call_id(reply: &Value, at: usize) -> String {
    reply["calls"][at]["call_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_model_gets_the_message_of_its_provider_after_an_approval() {
    let bench = ApprovalServer::new().await;
    for format in ProviderFormat::ALL {
        let body = message(*format, &[("c1", "m2_rm", 7)]);
        let asked =
            bench.agent.post(&format!("/v1/calls?format={format}"), &body).await.expect_ok();
        assert_eq!(asked["calls"][0]["status"], "waiting", "{format}");
        let id = call_id(&asked, 0);
        let path = format!("/v1/calls/{id}/resume?format={format}");
        // Undecided, it is the pending result again.
        let pending = bench.agent.post(&path, &empty_object()).await;
        assert_eq!(pending.status, 202, "{format}: {}", pending.text());
        assert_eq!(pending.json()["messages"], asked["messages"], "{format}");
        bench.decide(&id, "approve", empty_object()).await;
        let reply =
            bench.agent.post(&format!("{path}&wait=30s"), &empty_object()).await.expect_ok();
        let done = &reply["calls"][0];
        assert_eq!((&done["status"], &done["tool"]), (&json!("succeeded"), &json!("m2.rm")));
        assert_eq!(done["id"], asked["calls"][0]["id"], "{format}");
        let messages = reply["messages"].as_array().unwrap();
        let (place, expected) = named(*format);
        assert_eq!(messages.len(), 1, "{format}");
        assert_eq!(messages[0].pointer(place), Some(&json!(expected)), "{format}: {reply}");
        assert!(!reply["messages"].to_string().contains("pending_approval"), "{reply}");
    }
    assert_eq!(bench.ran.call_count(), ProviderFormat::ALL.len());
    let path = "/v1/calls/01980000-0000-7000-8000-000000000000/resume?format=openai_chat";
    assert_eq!(bench.agent.post(path, &empty_object()).await.error().0, 404);
}

#[tokio::test]
async fn a_denied_call_is_told_to_the_model_and_a_call_of_no_message_has_an_id_of_its_own() {
    let bench = ApprovalServer::new().await;
    let body = message(ProviderFormat::OpenaiChat, &[("c1", "rm", 1)]);
    let asked = bench.agent.post("/v1/calls?format=openai_chat", &body).await.expect_ok();
    let denied = call_id(&asked, 0);
    bench.decide(&denied, "deny", json!({"reason": "not today"})).await;
    let path = format!("/v1/calls/{denied}/resume?format=openai_chat");
    let reply = bench.agent.post(&path, &empty_object()).await.expect_ok();
    let expected = json!([{"role": "tool", "tool_call_id": "c1",
        "content": "Error: the call was denied by a person: not today"}]);
    assert_eq!(reply["messages"], expected);
    assert_eq!(reply["calls"][0]["code"], "approval_denied");
    let native = bench.pending_call(json!({"n": 2})).await;
    bench.decide(&native, "approve", empty_object()).await;
    let path = format!("/v1/calls/{native}/resume?format=anthropic&wait=30s");
    let reply = bench.agent.post(&path, &empty_object()).await.expect_ok();
    assert_eq!(reply["messages"][0]["content"][0]["tool_use_id"], native);
    // None of it belongs to another key.
    let bob = bench.server.agent_client("bob", tool::PermissionLevel::User).await;
    assert_eq!(bob.post(&path, &empty_object()).await.error().0, 404);
}

#[tokio::test]
async fn one_wait_is_for_all_calls_of_a_message_and_what_is_undecided_stays_pending() {
    let bench = ApprovalServer::new().await;
    let calls: [Call; 4] = [("a", "rm", 1), ("b", "ls", 2), ("c", "m2_rm", 3), ("d", "rm", 4)];
    let body = message(ProviderFormat::OpenaiChat, &calls);
    let (agent, sent) = (bench.agent.clone(), body.clone());
    let mut waits = JoinSet::new();
    waits.spawn(async move {
        agent.post("/v1/calls?format=openai_chat&wait=2s", &sent).await.expect_ok()
    });
    let pending = loop {
        let list = bench.owner.get("/v1/approvals").await.expect_ok();
        let all = list["approvals"].as_array().unwrap().clone();
        if all.len() == 3 {
            break all;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    // Calls that need no approval ran meanwhile; one is approved, one denied, and one not decided.
    for one in &pending {
        let id = one["id"].as_str().unwrap();
        match one["arguments"]["n"].as_u64().unwrap() {
            1 => drop(bench.decide(id, "approve", empty_object()).await),
            3 => drop(bench.decide(id, "deny", empty_object()).await),
            _ => {}
        }
    }
    let reply = waits.join_next().await.unwrap().unwrap();
    let calls = reply["calls"].as_array().unwrap();
    let stand: Vec<_> = calls
        .iter()
        .map(|it| (it["id"].as_str().unwrap(), it["status"].as_str().unwrap()))
        .collect();
    let expected = [("a", "succeeded"), ("b", "succeeded"), ("c", "refused"), ("d", "waiting")];
    assert_eq!(stand, expected);
    let messages = reply["messages"].as_array().unwrap();
    assert_eq!(messages[0]["content"], r#"{"n":1}"#);
    assert!(messages[3]["content"].as_str().unwrap().contains("pending_approval"));
    // Control: without `wait` no call is awaited.
    let reply = bench.agent.post("/v1/calls?format=openai_chat", &body).await.expect_ok();
    let waiting = reply["calls"].as_array().unwrap().iter().filter(|it| it["status"] == "waiting");
    assert_eq!(waiting.count(), 3);
}
