//! Tests of the list of what needs a person, and of the storage of the record.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use identity::Right;
use ledger::{FileLedger, LedgerOptions, OsDisk};
use serde_json::{Value, json};
use testkit::clock::FakeClock;
use testkit::source::MockListing;
use tool::source::SourceErrorKind;
use tool::{Problem, SourceError, SourceTrust, WallTime};

use crate::approvals::ApprovalServer;
use crate::support::{Client, FixtureServer, ServerSetup, tools};

/// The entries as urgency, topic and subject.
async fn entries(client: &Client) -> Vec<String> {
    let list = client.get("/v1/attention").await.expect_ok();
    let entries = list["entries"].as_array().unwrap().iter();
    let entries = entries.map(|entry| {
        assert!(!entry["message"].as_str().unwrap().is_empty());
        assert!(!entry["action"].as_str().unwrap().is_empty(), "each says what mends it: {entry}");
        let part = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        [part("urgency"), part("topic"), part("subject")].join(" ").trim_end().to_owned()
    });
    entries.collect()
}

#[tokio::test]
async fn waiting_calls_and_keys_that_end_are_listed_for_those_who_may_see_them() {
    let bench = ApprovalServer::new().await;
    assert_eq!(entries(&bench.owner).await, [""; 0], "nothing yet");
    bench.pending_call(json!({"n": 1})).await;
    bench.pending_call(json!({"n": 2})).await;
    let list = bench.owner.get("/v1/attention").await.expect_ok();
    assert_eq!(list["entries"][0]["message"], "2 calls wait for an approval");
    assert!(list["entries"][0]["since"].is_string(), "{list}");
    // The caller sees its own; another agent sees nothing.
    let stranger = bench.server.agent_client("bob", tool::PermissionLevel::User).await;
    assert_eq!(entries(&bench.agent).await, ["soon approval"]);
    assert_eq!(entries(&stranger).await, [""; 0]);
    // A key that ends within a week: for its user, and for those who manage keys.
    let now = tool::Clock::wall_now(&*bench.server.clock);
    let day = 86_400_000;
    let ends_in = async |days: u64| {
        let client = bench.server.client_with(|key| {
            key.subject = "ends".into();
            key.expires_at = Some(WallTime(now.0 + days * day));
        });
        client.await
    };
    let (soon, late) = (ends_in(6).await, ends_in(9).await);
    assert!(entries(&soon).await[0].starts_with("notice key "), "{:?}", entries(&soon).await);
    assert_eq!(entries(&late).await, [""; 0]);
    let owners = entries(&bench.owner).await;
    assert_eq!((owners.len(), owners[0].as_str()), (2, "soon approval"), "the most urgent first");
    assert_eq!(owners[1], entries(&soon).await[0]);
    assert_eq!(entries(&stranger).await, [""; 0], "a stranger learns of no key");
    // A key that has ended needs nobody.
    bench.server.clock.advance(Duration::from_hours(24 * 7));
    let late = entries(&bench.owner).await;
    assert_eq!(late.iter().filter(|entry| entry.contains(" key ")).count(), 1, "{late:?}");
}

#[tokio::test]
async fn a_source_that_is_away_is_urgent_and_its_problems_are_for_those_who_can_mend_it() {
    let error = SourceError {
        kind: SourceErrorKind::Unreachable,
        problem: Problem::new("s", "no connection to /secret/socket"),
    };
    let setup =
        ServerSetup { first_answer: Some(MockListing::Error(error)), ..ServerSetup::default() };
    let server = FixtureServer::with_setup(setup).await;
    let (owner, agent) =
        (server.owner_client().await, server.agent_client("a", tool::PermissionLevel::User).await);
    assert_eq!(entries(&owner).await, ["urgent source s"]);
    assert_eq!(entries(&agent).await, ["urgent source s"], "it sees the source in the list too");
    let text = |list: &Value| list["entries"][0]["message"].as_str().unwrap().to_owned();
    let shown = text(&owner.get("/v1/attention").await.expect_ok());
    assert!(shown.contains("no connection to /secret/socket"), "{shown}");
    let shown = text(&agent.get("/v1/attention").await.expect_ok());
    assert!(!shown.contains("secret"), "{shown}");
    let narrow = server.client_with(|key| {
        key.persona = Some(identity::Persona {
            name: "p".to_owned(),
            allowed_modules: Some(["other".to_owned()].into()),
        });
    });
    assert_eq!(entries(&narrow.await).await, [""; 0], "a hidden source has no entry");
}

#[tokio::test]
async fn definitions_to_review_are_listed_for_reviewers() {
    let setup = ServerSetup {
        offers: vec![tools::tool_offer(tools::test_tool("ls"), testkit::executor::echo_executor())],
        trust: Some(SourceTrust::Review),
        ..ServerSetup::default()
    };
    let server = FixtureServer::with_setup(setup).await;
    let (owner, agent) =
        (server.owner_client().await, server.agent_client("a", tool::PermissionLevel::User).await);
    assert_eq!(entries(&owner).await, ["soon definition s"]);
    assert_eq!(entries(&agent).await, [""; 0]);
}

#[tokio::test]
async fn the_storage_of_the_record_is_for_those_who_may_read_it() {
    let folder = tempfile::tempdir().unwrap();
    let (files, _) = open_files(folder.path());
    let server = server_with(&files).await;
    let owner = server.owner_client().await;
    let storage = owner.get("/v1/records/storage").await.expect_ok();
    assert_eq!((&storage["available"], &storage["damaged"]), (&json!(true), &json!(0)));
    assert_eq!(storage["writers"][0]["writer"], "main");
    assert!(storage["writers"][0]["files"].as_u64() >= Some(1), "{storage}");
    assert!(storage["free_bytes"].as_u64() > Some(0), "{storage}");
    let reader = server.client_with(|key| key.rights = [Right::RecordsRead].into()).await;
    reader.get("/v1/records/storage").await.expect_ok();
    let foreign = server.client_with(|key| {
        (key.rights, key.org) = ([Right::RecordsRead].into(), tool::Org::new("other").unwrap());
    });
    for client in [server.client_with(|_| {}).await, foreign.await] {
        assert_eq!(client.get("/v1/records/storage").await.status, 403);
    }
    assert_eq!(entries(&owner).await, [""; 0]);
    assert_eq!(owner.get("/v1/records/verification").await.expect_ok()["state"], "never");
    assert_eq!(verify(&owner).await["state"], "intact");
    // Damage that was found when the record was opened is urgent; the rest still works.
    for _ in 0..3 {
        owner.call_tool("notes.append", json!({})).await.expect_ok();
    }
    files.close_ledger();
    drop((server, files));
    let (files, _) = open_files(folder.path());
    let server = server_with(&files).await;
    let owner = server.owner_client().await;
    damage_segment(folder.path());
    let found = verify(&owner).await;
    assert_eq!(found["state"], "damaged");
    assert!(!found["findings"].as_array().unwrap().is_empty(), "{found}");
    assert_eq!(entries(&owner).await, ["urgent record"], "while the server runs");
    files.close_ledger();
    drop((server, files));
    let (files, recovery) = open_files(folder.path());
    assert!(!recovery.findings.is_empty(), "the control");
    let server = server_with(&files).await;
    let owner = server.owner_client().await;
    assert_eq!(entries(&owner).await, ["urgent record"]);
    assert!(owner.get("/v1/records/storage").await.expect_ok()["damaged"].as_u64() >= Some(1));
    let other = server.agent_client("bob", tool::PermissionLevel::User).await;
    assert_eq!(entries(&other).await, [""; 0]);
}

/// Verifies the record, and waits for the result.
async fn verify(client: &Client) -> Value {
    let path = "/v1/records/verification";
    client.post(path, &json!({})).await.expect_ok();
    loop {
        let reply = client.get(path).await.expect_ok();
        if reply["state"] != "running" {
            return reply;
        }
        tokio::task::yield_now().await;
    }
}

fn open_files(dir: &Path) -> (Arc<FileLedger>, ledger::RecoveryReport) {
    let (disk, clock) = (Arc::new(OsDisk), Arc::new(FakeClock::default()));
    let (files, recovery) =
        FileLedger::open_directory(dir, disk, clock, LedgerOptions::default()).unwrap();
    (Arc::new(files), recovery)
}

async fn server_with(files: &Arc<FileLedger>) -> FixtureServer {
    let setup = ServerSetup {
        offers: tools::standard_offers(),
        file_ledger: Some(Arc::clone(files)),
        ..ServerSetup::default()
    };
    FixtureServer::with_setup(setup).await
}

/// Flips a bit in the middle of the largest file.
fn damage_segment(dir: &Path) {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let largest = files.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&largest).unwrap();
    let place = bytes.windows(5).position(|part| part == b"notes").unwrap();
    bytes[place] ^= 1;
    std::fs::write(&largest, bytes).unwrap();
}
