//! Tests of the interfaces with the file ledger and its segments.

use std::sync::Arc;

use ledger::{FileLedger, LedgerOptions, OsDisk};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::clock::FakeClock;
use tool::PermissionLevel;

use crate::support::client::message;
use crate::support::{Client, FixtureServer, ServerSetup, tools};

async fn server(folder: &TempDir) -> (FixtureServer, Arc<FileLedger>) {
    let (disk, clock) = (Arc::new(OsDisk), Arc::new(FakeClock::default()));
    let (files, recovery) =
        FileLedger::open_directory(folder.path(), disk, clock, LedgerOptions::default()).unwrap();
    assert_eq!(recovery.findings, []);
    let files = Arc::new(files);
    let setup = ServerSetup {
        offers: tools::standard_offers(),
        file_ledger: Some(Arc::clone(&files)),
        ..ServerSetup::default()
    };
    (FixtureServer::with_setup(setup).await, files)
}

/// Kinds of all records that the query finds, newest first, and the sizes of its pages.
async fn listed(client: &Client, query: &str) -> (Vec<String>, Vec<usize>) {
    let (mut kinds, mut sizes, mut cursor) = (Vec::new(), Vec::new(), String::new());
    loop {
        let page = client.get(&format!("/v1/records?{query}{cursor}")).await.expect_ok();
        let records = page["records"].as_array().unwrap();
        sizes.push(records.len());
        kinds.extend(records.iter().map(|record| record["kind"].as_str().unwrap().to_owned()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    (kinds, sizes)
}

#[tokio::test]
async fn calls_of_both_doors_are_on_record_after_a_restart() {
    let folder = TempDir::new().unwrap();
    let ids = {
        let (server, files) = server(&folder).await;
        let ann = server.agent_client("ann", PermissionLevel::User).await;
        let good = ann.call_tool("notes.append", json!({"n": 1})).await.expect_ok();
        let refused = ann.call_tool("dangerous", json!({})).await.json();
        let call = message("tools/call", json!({"name": "mcp_result"}));
        ann.legacy_request(&call).await.expect_ok();
        server.wait_until_drained().await;
        files.close_ledger();
        [good["call_id"].clone(), refused["error"]["call_id"].clone()]
    };
    let (server, _files) = server(&folder).await;
    let owner = server.owner_client().await;
    let kinds = ["outcome", "intent", "refused", "outcome", "intent"];
    assert_eq!(listed(&owner, "").await.0, kinds);
    assert_eq!(listed(&owner, "tool=notes.append").await.0, ["outcome", "intent"]);
    assert_eq!(listed(&owner, "tool=dangerous").await.0, ["refused"]);
    assert_eq!(listed(&owner, "tool=nothing").await.0, [""; 0]);
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for (id, status) in ids.iter().zip(["succeeded", "refused"]) {
        let path = format!("/v1/calls/{}", id.as_str().unwrap());
        assert_eq!(ann.get(&path).await.expect_ok()["status"], status);
        let bob = server.agent_client("bob", PermissionLevel::User).await;
        assert_eq!(bob.get(&path).await.status, 404);
    }
}

/// The maximum page size equals the ledger's, and a further page must still be announced.
#[tokio::test]
async fn the_largest_page_is_not_the_last() {
    let folder = TempDir::new().unwrap();
    let (server, _files) = server(&folder).await;
    let (ann, owner) =
        (server.agent_client("ann", PermissionLevel::User).await, server.owner_client().await);
    for _ in 0..600 {
        ann.call_tool("notes.append", Value::Null).await.expect_ok();
    }
    assert_eq!(listed(&owner, "limit=1000").await.1, [1_000, 200]);
    assert_eq!(listed(&owner, "limit=600").await.1, [600, 600]);
    assert_eq!(listed(&owner, "limit=500").await.1, [500, 500, 200]);
}
