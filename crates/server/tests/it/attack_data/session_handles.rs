//! Tests of session handles that belong to another caller; each row has a control.

use std::sync::Arc;

use identity::Persona;
use serde_json::{Value, json};
use testkit::executor::echo_executor;
use tokio::sync::Semaphore;
use tool::PermissionLevel;

use crate::mcp;
use crate::support::client::message;
use crate::support::executors::ReportingExecutor;
use crate::support::test_server::ServerSetup;
use crate::support::{Client, FixtureServer, tools};

/// Runs a test of one complete row, and panics if it fails.
async fn test(test: fn()) {
    // It has a runtime of its own, which cannot be made within this one.
    let ran = tokio::task::spawn_blocking(move || std::thread::spawn(test).join());
    assert!(ran.await.unwrap().is_ok(), "the test failed; its words are above");
}

/// Runs a row, and returns whether it applies here.
pub(super) async fn run_row(name: &str) -> bool {
    match name {
        "task handle of user A read by user B" => test(mcp::tasks::a_task_is_nobody_elses).await,
        "id collision across clients" => {
            test(mcp::cancel::the_same_id_in_two_sessions_is_two_calls).await;
        }
        "notifications to all sessions carry private data" => {
            test(mcp::streams::a_listener_hears_of_changes_of_its_own_list_only).await;
        }
        "cursor of user A used by B" => cursors().await,
        "cacheScope private result served to B" => lists().await,
        "resource subscription leak" => of_a_source("resources/subscribe").await,
        "completion leaks tool names denied" => of_a_source("completion/complete").await,
        "progress token of another" => progress().await,
        _ => return false,
    }
    true
}

/// A guest and an administrator.
async fn two_clients(server: &FixtureServer) -> [Client; 2] {
    [
        server.agent_client("eve", PermissionLevel::Guest).await,
        server.agent_client("ann", PermissionLevel::Admin).await,
    ]
}

fn names(reply: &Value) -> Vec<String> {
    let tools = reply["result"]["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// A cursor is a place in the caller's own list: one that came of another's is as one that came of nowhere.
async fn cursors() {
    let server = FixtureServer::with_offers(tools::standard_offers()).await;
    let [eve, ann] = two_clients(&server).await;
    let ask = async |who: &Client, cursor: &str| {
        who.legacy_request(&message("tools/list", json!({ "cursor": cursor }))).await.json()
    };
    let (hidden, nowhere) = (ask(&eve, "needs.admin").await, ask(&eve, "needs.nobody").await);
    assert_eq!(hidden, nowhere);
    // Positive control: in its own list it is a valid cursor.
    assert!(!names(&ask(&ann, "needs.admin").await).is_empty());
}

/// A list is private to its caller, and marked as such.
async fn lists() {
    let server = FixtureServer::with_offers(tools::standard_offers()).await;
    let [eve, ann] = two_clients(&server).await;
    let list = async |who: &Client| who.modern_request("tools/list", json!({})).await.json();
    let (anns, eves) = (list(&ann).await, list(&eve).await);
    for list in [&anns, &eves] {
        assert_eq!(list["result"]["cacheScope"], "private");
    }
    let has = |list: &Value| names(list).contains(&"needs.admin".to_owned());
    assert!(has(&anns) && !has(&eves) && has(&list(&ann).await));
}

/// Who may not have a source's tools hears nothing of its resources and is completed no names of its.
async fn of_a_source(method: &str) {
    let offers = ["mcp.resources.subscribe", "mcp.completion.complete"];
    let offers = offers.map(|name| tools::method_offer(name, echo_executor())).to_vec();
    let server = FixtureServer::with_setup(ServerSetup {
        offers,
        kind: Some("mcp"),
        ..ServerSetup::default()
    })
    .await;
    let none = Persona { name: "none".to_owned(), allowed_modules: Some([].into()) };
    let eve = server.client_with(|key| key.persona = Some(none)).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let ask = json!({ "uri": "test://a", "ref": { "type": "ref/prompt", "name": "p" },
        "argument": { "name": "tool", "value": "" } });
    let refused = eve.with_endpoint("/mcp/s").legacy_request(&message(method, ask.clone())).await;
    assert_eq!(refused.status, 404, "{}", refused.text());
    let unknown = eve.with_endpoint("/mcp/n").legacy_request(&message(method, ask.clone())).await;
    assert_eq!(refused.text().replace("`s`", "`n`"), unknown.text());
    assert_eq!(server.recorded_intents(), []);
    // Positive control.
    let ann = ann.with_endpoint("/mcp/s").open_session(json!({})).await;
    let reply = ann.legacy_request(&message(method, ask)).await;
    assert_eq!((reply.status.as_u16(), reply.json().get("error")), (200, None), "{}", reply.text());
}

/// Two clients may name their progress alike: each hears of its own call.
async fn progress() {
    let next = Arc::new(Semaphore::new(0));
    let reports = vec![(1.0, None, None)];
    let reporting = Arc::new(ReportingExecutor { reports, next: Arc::clone(&next) });
    let offers = vec![
        tools::tool_offer(tools::test_tool("slow"), reporting),
        tools::tool_offer(tools::test_tool("quick"), echo_executor()),
    ];
    let server = FixtureServer::with_offers(offers).await;
    let [eve, ann] = two_clients(&server).await;
    let (eve, ann) = (eve.open_session(json!({})).await, ann.open_session(json!({})).await);
    let call = |name: &str| {
        message("tools/call", json!({ "name": name, "_meta": { "progressToken": "same" } }))
    };
    let asked = call("slow");
    let slow = async {
        let mut stream = ann.legacy_stream(&asked).await;
        stream.next().await
    };
    let quick = async {
        let heard = eve.legacy_request(&call("quick")).await.messages();
        next.add_permits(1);
        heard
    };
    let (heard, eves) = tokio::join!(slow, quick);
    assert!(eves.iter().all(|message| message["method"] != "notifications/progress"), "{eves:?}");
    // Positive control: the call's own caller receives it.
    assert_eq!(
        (&heard["method"], &heard["params"]["progressToken"]),
        (&json!("notifications/progress"), &json!("same"))
    );
}
