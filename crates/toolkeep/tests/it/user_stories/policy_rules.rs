//! Tests of a tool that the operator denies at run time: it disappears at every interface for every
//! key and returns the same way. Running calls are not affected.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::{CallResult, Caller, names};
use crate::real_support::mcp_caller::McpCaller;
use crate::real_support::recording_module::{Module, manifest};
use crate::real_support::{expect_ok, run_cli, wait_for_sources};
use crate::support::installation::Installation;
use crate::support::rest_client::{Client, Reply};
use crate::support::server_process::{READY_LIMIT, start_server};

/// The configuration: one module, and these rules.
fn with(module: &Module, policy: &Value) -> String {
    let sources = json!([{ "name": "notes", "module": module.url() }]);
    json!({ "version": 1, "sources": sources, "policy": policy }).to_string()
}

/// Waits until the owner's list has the tool, or has it no more; then every door's has.
async fn listed(caller: &Caller, tool: &str, wanted: bool) {
    let since = Instant::now();
    while names(&expect_ok(caller.rest.get("/v1/tools").await)).contains(tool) != wanted {
        assert!(since.elapsed() < READY_LIMIT, "`{tool}` is listed: {}", !wanted);
        sleep(Duration::from_millis(10)).await;
    }
    let by_mcp = names(&caller.mcp.send_request("tools/list", &json!({})).await["result"]);
    assert_eq!(by_mcp.contains(tool), wanted, "{by_mcp:?}");
}

async fn look(client: Client) -> Reply {
    client.call("notes.look", &json!({})).await
}

#[tokio::test]
async fn a_tool_denied_by_configuration_is_gone_and_comes_back() {
    let tools: &[(&str, &str, &[&str])] =
        &[("notes.look", "guest", &[]), ("notes.append", "user", &[])];
    let module = Module::start(manifest("notes", tools));
    let home = Installation::new(&with(&module, &json!({})));
    let server = start_server(&home).await;
    let key = std::fs::read_to_string(server.data.join("owner.key")).unwrap();
    let owner = Caller { rest: server.owner(), mcp: McpCaller::new(&server.url, key.trim()) };
    wait_for_sources(&owner.rest).await;
    // The control: without rules it is there, and runs.
    listed(&owner, "notes.look", true).await;
    CallResult::with(&owner, "notes.look").await.succeeded(&json!({ "for": "owner" }));

    module.hold_calls(true);
    let mut running = JoinSet::new();
    running.spawn(look(server.owner()));
    while module.received().len() < 3 {
        sleep(Duration::from_millis(5)).await;
    }
    home.write("toolkeep.yaml", &with(&module, &json!({ "deny": ["*.look"] })));
    listed(&owner, "notes.look", false).await;
    CallResult::with(&owner, "notes.look")
        .await
        .looks_like(&CallResult::with(&owner, "notes.none").await);
    let told = run_cli(&server, &["tool", "call", "notes.look"]);
    assert!(told.err.contains("unknown tool `notes.look`"), "{told:?}");
    assert!(running.try_join_next().is_none(), "the call that ran was ended");
    assert_eq!(module.received().len(), 3, "a denied call reached the module");
    // Tools without a rule are listed as before.
    listed(&owner, "notes.append", true).await;

    // Invalid rules change nothing, and are reported with their location.
    home.write("toolkeep.yaml", &with(&module, &json!({ "deny": ["a b"] })));
    // The file may be read while it is half written: then another problem is shown for a moment.
    let is_named =
        |source: &Value| source["problems"].to_string().contains("invalid pattern `a b`");
    owner.rest.wait_for_source("configuration", is_named).await;
    listed(&owner, "notes.look", false).await;

    module.hold_calls(false);
    let ended = expect_ok(running.join_next().await.unwrap().unwrap());
    assert_eq!(ended["status"], "succeeded", "{ended}");
    home.write("toolkeep.yaml", &with(&module, &json!({ "allow": ["source:notes"] })));
    listed(&owner, "notes.look", true).await;
    CallResult::with(&owner, "notes.look").await.succeeded(&json!({ "for": "owner" }));
    listed(&owner, "calculator", false).await;
    assert_eq!(owner.rest.find_source("configuration").await, None);
    assert!(server.stop().await.success());
}
