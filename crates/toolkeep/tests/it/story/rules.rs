//! The operator takes a tool away while the server runs: it is gone at every door at once, for every
//! key, and comes back the same way. A call that runs already never notices.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::{Called, Caller, names};
use crate::support::client::{Client, Reply};
use crate::support::home::Home;
use crate::support::server::{SOON, serve};
use crate::support_real::mcp::Mcp;
use crate::support_real::module::{Module, manifest};
use crate::support_real::{cli, good, settled};

/// The configuration: one module, and these rules.
fn with(module: &Module, policy: &Value) -> String {
    let sources = json!([{ "name": "notes", "module": module.url() }]);
    json!({ "version": 1, "sources": sources, "policy": policy }).to_string()
}

/// Waits until the owner's list has the tool, or has it no more; then every door's has.
async fn listed(caller: &Caller, tool: &str, wanted: bool) {
    let since = Instant::now();
    while names(&good(caller.rest.get("/v1/tools").await)).contains(tool) != wanted {
        assert!(since.elapsed() < SOON, "`{tool}` is listed: {}", !wanted);
        sleep(Duration::from_millis(10)).await;
    }
    let by_mcp = names(&caller.mcp.ask("tools/list", &json!({})).await["result"]);
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
    let home = Home::new(&with(&module, &json!({})));
    let server = serve(&home).await;
    let key = std::fs::read_to_string(server.data.join("owner.key")).unwrap();
    let owner = Caller { rest: server.owner(), mcp: Mcp::new(&server.url, key.trim()) };
    settled(&owner.rest).await;
    // The control: without rules it is there, and runs.
    listed(&owner, "notes.look", true).await;
    Called::with(&owner, "notes.look").await.succeeded(&json!({ "for": "owner" }));

    module.hold(true);
    let mut running = JoinSet::new();
    running.spawn(look(server.owner()));
    while module.received().len() < 3 {
        sleep(Duration::from_millis(5)).await;
    }
    home.write("toolkeep.yaml", &with(&module, &json!({ "deny": ["*.look"] })));
    listed(&owner, "notes.look", false).await;
    Called::with(&owner, "notes.look").await.looks_like(&Called::with(&owner, "notes.none").await);
    let told = cli(&server, &["tool", "call", "notes.look"]);
    assert!(told.err.contains("unknown tool `notes.look`"), "{told:?}");
    assert!(running.try_join_next().is_none(), "the call that ran was ended");
    assert_eq!(module.received().len(), 3, "a denied call reached the module");
    // What no rule names is there as before.
    listed(&owner, "notes.append", true).await;

    // Rules that cannot be read change nothing, and are told with their place.
    home.write("toolkeep.yaml", &with(&module, &json!({ "deny": ["a b"] })));
    // The file may be read while it is half written: then another problem is shown for a moment.
    let is_named = |source: &Value| source["problems"].to_string().contains("`a b` is no pattern");
    owner.rest.source_that("configuration", is_named).await;
    listed(&owner, "notes.look", false).await;

    module.hold(false);
    let ended = good(running.join_next().await.unwrap().unwrap());
    assert_eq!(ended["status"], "succeeded", "{ended}");
    home.write("toolkeep.yaml", &with(&module, &json!({ "allow": ["source:notes"] })));
    listed(&owner, "notes.look", true).await;
    Called::with(&owner, "notes.look").await.succeeded(&json!({ "for": "owner" }));
    listed(&owner, "calculator", false).await;
    assert_eq!(owner.rest.source("configuration").await, None);
    assert!(server.stop().await.success());
}
