//! The doors on the ledger that ships: segment files in a folder.

use std::sync::Arc;

use ledger::{FileLedger, Options, RealDisk};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::clock::FakeClock;
use tool::Level;

use crate::support::client::message;
use crate::support::{Client, Server, Setup, tools};

async fn server(folder: &TempDir) -> (Server, Arc<FileLedger>) {
    let (disk, clock) = (Arc::new(RealDisk), Arc::new(FakeClock::default()));
    let (files, recovery) =
        FileLedger::open(folder.path(), disk, clock, Options::default()).unwrap();
    assert_eq!(recovery.findings, []);
    let files = Arc::new(files);
    let setup =
        Setup { offers: tools::standard(), files: Some(Arc::clone(&files)), ..Setup::default() };
    (Server::with(setup).await, files)
}

/// Kinds of all records that the query finds, newest first, and the sizes of its pages.
async fn listed(client: &Client, query: &str) -> (Vec<String>, Vec<usize>) {
    let (mut kinds, mut sizes, mut cursor) = (Vec::new(), Vec::new(), String::new());
    loop {
        let page = client.get(&format!("/v1/records?{query}{cursor}")).await.good();
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
        let ann = server.agent("ann", Level::User).await;
        let good = ann.call("notes.append", json!({"n": 1})).await.good();
        let refused = ann.call("dangerous", json!({})).await.json();
        let call = message("tools/call", json!({"name": "mcp_result"}));
        ann.legacy(&call).await.good();
        server.drained().await;
        files.close();
        [good["call_id"].clone(), refused["error"]["call_id"].clone()]
    };
    let (server, _files) = server(&folder).await;
    let owner = server.owner().await;
    let kinds = ["outcome", "intent", "refused", "outcome", "intent"];
    assert_eq!(listed(&owner, "").await.0, kinds);
    assert_eq!(listed(&owner, "tool=notes.append").await.0, ["outcome", "intent"]);
    assert_eq!(listed(&owner, "tool=dangerous").await.0, ["refused"]);
    assert_eq!(listed(&owner, "tool=nothing").await.0, [""; 0]);
    let ann = server.agent("ann", Level::User).await;
    for (id, status) in ids.iter().zip(["succeeded", "refused"]) {
        let path = format!("/v1/calls/{}", id.as_str().unwrap());
        assert_eq!(ann.get(&path).await.good()["status"], status);
        let bob = server.agent("bob", Level::User).await;
        assert_eq!(bob.get(&path).await.status, 404);
    }
}

/// The largest page that may be asked for is the largest that the ledger gives: that there is more
/// must show all the same.
#[tokio::test]
async fn the_largest_page_is_not_the_last() {
    let folder = TempDir::new().unwrap();
    let (server, _files) = server(&folder).await;
    let (ann, owner) = (server.agent("ann", Level::User).await, server.owner().await);
    for _ in 0..600 {
        ann.call("notes.append", Value::Null).await.good();
    }
    assert_eq!(listed(&owner, "limit=1000").await.1, [1_000, 200]);
    assert_eq!(listed(&owner, "limit=600").await.1, [600, 600]);
    assert_eq!(listed(&owner, "limit=500").await.1, [500, 500, 200]);
}
