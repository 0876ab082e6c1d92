//! Tests that all interfaces agree: the same list, the same decision, the same record.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testkit::executor::echo_executor;
use tool::ledger::RecordKind;
use tool::{PermissionLevel, SafetyLevel};

use crate::support::client::message;
use crate::support::{Client, FixtureServer, Reply, tools};

pub(crate) type Names = BTreeSet<String>;

/// Every door, with its list of names.
pub(crate) async fn lists_by_interface(client: &Client) -> Vec<Names> {
    let names = |list: &Value| -> Names {
        let tools = list["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let legacy = client.legacy_request(&message("tools/list", json!({}))).await.expect_ok();
    let modern = client.modern_request("tools/list", json!({})).await.expect_ok();
    vec![
        names(&client.get("/v1/tools").await.expect_ok()),
        names(&client.get("/v1/tools?format=mcp").await.expect_ok()),
        names(&legacy["result"]),
        names(&modern["result"]),
    ]
}

/// Result of the same call at each interface: its code and message.
pub(crate) async fn calls_by_interface(
    client: &Client,
    tool: &str,
    arguments: &Value,
) -> Vec<(String, String)> {
    let call = json!({"name": tool, "arguments": arguments});
    vec![
        rest_outcome(&client.call_tool(tool, arguments.clone()).await),
        mcp_outcome(&client.legacy_request(&message("tools/call", call.clone())).await),
        mcp_outcome(&client.modern_request("tools/call", call).await),
    ]
}

fn rest_outcome(reply: &Reply) -> (String, String) {
    let body = reply.json();
    match body.get("error") {
        Some(_) => (reply.error().1, reply.error().2),
        None if body["is_error"] == true => ("is_error".to_owned(), body["result"].to_string()),
        None => ("ran".to_owned(), body["result"].to_string()),
    }
}

fn mcp_outcome(reply: &Reply) -> (String, String) {
    let body = reply.json();
    if let Some(error) = body.get("error") {
        assert_eq!(error["code"], -32_602, "{body}");
        return ("unknown_tool".to_owned(), error["message"].as_str().unwrap().to_owned());
    }
    let result = &body["result"];
    let text = result["content"][0]["text"].as_str().unwrap().to_owned();
    let value =
        result.get("structuredContent").map_or_else(|| json!(text).to_string(), Value::to_string);
    let code = text.split_once(": ").filter(|(code, _)| code.parse::<tool::ErrorCode>().is_ok());
    match (result["isError"] == true, code) {
        (true, Some((code, told))) => (code.to_owned(), told.to_owned()),
        (true, None) => ("is_error".to_owned(), value),
        (false, _) => ("ran".to_owned(), value),
    }
}

#[tokio::test]
async fn what_is_listed_is_what_can_be_called_at_every_door() {
    let mut offers = tools::standard_offers();
    for level in PermissionLevel::ALL {
        for safety in SafetyLevel::ALL {
            let tool = tools::tool_with(&format!("{level}-{safety}"), |t| {
                (t.traits.min_level, t.traits.safety) = (*level, *safety);
            });
            offers.push(tools::tool_offer(tool, echo_executor()));
        }
    }
    let chain = tools::tool_with("chain.only", |t| {
        t.traits.allowed_callers = vec![tool::CallerType::Chain];
    });
    offers.push(tools::tool_offer(chain, echo_executor()));
    let server = FixtureServer::with_offers(offers).await;
    let all: Vec<_> =
        server.intake.catalog().list_tools().map(|e| e.tool_key.name.to_string()).collect();
    assert_eq!(all.len(), 24);
    let persona = |modules: &[&str]| identity::Persona {
        name: "p".to_owned(),
        allowed_modules: Some(modules.iter().map(|m| (*m).to_owned()).collect()),
    };
    let mut clients = vec![
        server.client_with(|key| key.persona = Some(persona(&[]))).await,
        server.client_with(|key| key.persona = Some(persona(&["s"]))).await,
    ];
    for level in PermissionLevel::ALL {
        clients.push(server.agent_client("ann", *level).await);
    }
    let mut sizes = BTreeSet::new();
    for client in clients {
        let mut lists = lists_by_interface(&client).await;
        lists.dedup();
        let [listed] = &lists[..] else { panic!("two doors list different tools: {lists:?}") };
        sizes.insert(listed.len());
        for name in &all {
            let mut found = calls_by_interface(&client, name, &json!({})).await;
            found.dedup();
            let [(code, _)] = &found[..] else { panic!("{name}: {found:?}") };
            assert_eq!(code != "unknown_tool", listed.contains(name), "{name}: {code}");
        }
    }
    assert_eq!(sizes, BTreeSet::from([0, 11, 15, 19, 23]));
}

#[tokio::test]
async fn a_call_comes_to_the_same_at_every_door() {
    let server = FixtureServer::new().await;
    let (ann, owner) =
        (server.agent_client("ann", PermissionLevel::User).await, server.owner_client().await);
    for (tool, arguments, code) in [
        ("notes.append", json!({"n": 5, "t": "é\u{202e}"}), "ran"),
        ("notes_append", json!({}), "ran"),
        ("notes.append", json!({"n": 12, "m": 1}), "invalid_arguments"),
        ("notes.append", json!([1]), "invalid_arguments"),
        ("notes.append", json!("text"), "invalid_arguments"),
        ("mcp_result", json!({}), "ran"),
        ("dangerous", json!({}), "approval_required"),
        ("destructive", json!({}), "approval_required"),
        ("says_error", json!({}), "is_error"),
        ("fails", json!({}), "upstream_failed"),
        ("nothing", json!({}), "unknown_tool"),
        ("no\nsuch", json!({"n": "x"}), "unknown_tool"),
        ("needs.owner", json!({"n": "x"}), "unknown_tool"),
        ("needs_owner", json!({}), "unknown_tool"),
    ] {
        // A header cannot carry every name unchanged, so only the other interfaces are tested.
        let mut found = if tool.contains('\n') {
            let call = message("tools/call", json!({"name": tool, "arguments": arguments}));
            vec![
                rest_outcome(&ann.call_tool(tool, arguments).await),
                mcp_outcome(&ann.legacy_request(&call).await),
            ]
        } else {
            calls_by_interface(&ann, tool, &arguments).await
        };
        found.dedup();
        assert_eq!(found.len(), 1, "{tool}: {found:?}");
        assert_eq!(found[0].0, code, "{tool}");
    }
    let seen = calls_by_interface(&owner, "needs_owner", &json!({})).await;
    assert!(seen.iter().all(|(code, _)| code == "ran"));
}

#[tokio::test]
async fn each_call_has_one_intent_and_one_outcome() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for tool in ["notes.append", "says_error", "fails", "mcp_result"] {
        calls_by_interface(&ann, tool, &json!({})).await;
    }
    let frames = server.ledger.all_records();
    let intents = server.recorded_intents();
    assert_eq!((intents.len(), frames.len()), (12, 24));
    for intent in &intents {
        assert_eq!(
            server.ledger.record_kinds(intent.call_id),
            [RecordKind::Intent, RecordKind::Outcome]
        );
        assert_eq!((intent.caller.subject.as_str(), &intent.caller.key_id), ("ann", &ann.key_id));
    }
    let doors: Vec<_> = intents.iter().map(|intent| intent.interface.as_str()).collect();
    assert_eq!(doors, ["rest", "mcp", "mcp"].repeat(4));
    let ids: BTreeSet<_> = intents.iter().map(|intent| intent.call_id).collect();
    assert_eq!(ids.len(), 12);
    // Equal arguments have the same hash at every interface.
    let hashes: BTreeSet<_> = intents.iter().map(|intent| intent.arguments_digest).collect();
    assert_eq!(hashes.len(), 1);
}

#[tokio::test]
async fn each_refused_call_has_one_record() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for (tool, arguments) in
        [("nothing", json!({})), ("dangerous", json!({})), ("notes.append", json!([]))]
    {
        calls_by_interface(&ann, tool, &arguments).await;
    }
    let refusals = server.recorded_refusals();
    assert_eq!((refusals.len(), server.ledger.all_records().len()), (9, 9));
    let doors: Vec<_> = refusals.iter().map(|refusal| refusal.interface.as_str()).collect();
    assert_eq!(doors, ["rest", "mcp", "mcp"].repeat(3));
    assert!(refusals.iter().all(|refusal| refusal.caller.subject == "ann"));
}
