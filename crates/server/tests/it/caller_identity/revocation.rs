//! Tests of how fast a revocation takes effect, and of a store that is unavailable.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use server_core::KeyStore;
use store::{MemoryStore, SqliteStore};
use testkit::store::FaultyStore;
use tokio::time::Instant;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tool::{Clock, PermissionLevel, Store};

use super::delegated_keys::names;
use crate::support::{Client, FixtureServer, ServerSetup, tools};

async fn server_on_store(store: &Arc<FaultyStore>) -> FixtureServer {
    let store = Some(Arc::clone(store) as Arc<dyn Store>);
    FixtureServer::with_setup(ServerSetup {
        offers: tools::standard_offers(),
        store,
        ..ServerSetup::default()
    })
    .await
}

/// Looks as the program does, for as long as what it gives lives.
fn spawn_store_watch(server: &FixtureServer) -> AbortOnDropHandle<()> {
    let (keys, clock) = (Arc::clone(&server.keys), Arc::clone(&server.clock) as Arc<dyn Clock>);
    AbortOnDropHandle::new(TaskTracker::new().spawn(async move { keys.watch_store(clock).await }))
}

/// Calls on and on; counts those that ran.
fn call_repeatedly(client: &Client, ran: &Arc<AtomicUsize>) -> AbortOnDropHandle<()> {
    let (client, ran) = (client.clone(), Arc::clone(ran));
    AbortOnDropHandle::new(TaskTracker::new().spawn(async move {
        loop {
            if client.call_tool("needs.guest", json!({})).await.status == 200 {
                ran.fetch_add(1, Ordering::SeqCst);
            }
        }
    }))
}

/// Until `client` gets `status`; how long it took.
async fn wait_for_status(client: &Client, status: u16) -> Duration {
    let begun = Instant::now();
    while client.call_tool("needs.guest", json!({})).await.status != status {
        assert!(begun.elapsed() < Duration::from_secs(30), "it never came");
    }
    begun.elapsed()
}

#[tokio::test]
async fn what_is_revoked_here_is_gone_with_the_answer_while_calls_run() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    owner.put("/v1/roles/r", &json!({})).await.expect_ok();
    owner.post("/v1/personas", &json!({"name": "p", "allowed_modules": ["s"]})).await.expect_ok();
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let with_role = server.client_with(|key| key.roles = vec!["r".to_owned()]).await;
    let named = identity::Persona { name: "p".to_owned(), allowed_modules: None };
    let with_persona = server.client_with(|key| key.persona = Some(named)).await;
    let ran = Arc::new(AtomicUsize::new(0));
    let calls: Vec<_> =
        [&ann, &with_role, &with_persona].map(|client| call_repeatedly(client, &ran)).into();
    for client in [&ann, &with_role, &with_persona] {
        assert!(wait_for_status(client, 200).await < Duration::from_secs(30));
    }
    owner.delete(&format!("/v1/keys/{}", ann.key_id)).await.expect_ok();
    assert_eq!(ann.call_tool("needs.guest", json!({})).await.status, 401);
    owner.delete("/v1/roles/r").await.expect_ok();
    assert_eq!(with_role.call_tool("needs.guest", json!({})).await.error().1, "unknown_tool");
    owner.post("/v1/personas/p", &json!({"allowed_modules": []})).await.expect_ok();
    assert_eq!(with_persona.call_tool("needs.guest", json!({})).await.error().1, "unknown_tool");
    assert!(ran.load(Ordering::SeqCst) >= 3);
    drop(calls);
    // Nothing ran after: the records' last intents are older than the answers above.
    let before = server.recorded_intents().len();
    for client in [&ann, &with_role, &with_persona] {
        assert_ne!(client.call_tool("needs.guest", json!({})).await.status, 200);
    }
    assert_eq!(server.recorded_intents().len(), before);
}

/// Arguments of the other process: the store file, and the key that it revokes.
const FILE: &str = "TOOLKEEP_TEST_STORE";
const TAKES: &str = "TOOLKEEP_TEST_TAKES";

/// The other process of the next test: it opens the same file and takes something back. By itself it does
/// nothing.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "how one process of a test tells another")]
async fn the_other_process() {
    let (Ok(file), Ok(takes)) = (std::env::var(FILE), std::env::var(TAKES)) else { return };
    let store = Arc::new(SqliteStore::open_file(file).unwrap());
    let (keys, problems) = KeyStore::load(store, None).await.unwrap();
    assert_eq!(problems, []);
    let now = testkit::clock::FakeClock::default().wall_now();
    if let Some(role) = takes.strip_prefix("role ") {
        let role = keys.key_ring().directory().find_role(role).unwrap().clone();
        keys.upsert_role(&identity::RoleRecord { revoked_at: Some(now), ..role }).await.unwrap();
    } else {
        keys.revoke_key(&takes, now).await.unwrap();
    }
}

/// Runs it; resolves when it has ended.
#[expect(clippy::disallowed_methods, reason = "the other process of a test")]
async fn in_another_process(file: &std::path::Path, takes: &str) {
    let mut other = std::process::Command::new(std::env::current_exe().unwrap());
    other.args(["--exact", "caller_identity::revocation::the_other_process"]);
    other.env(FILE, file).env(TAKES, takes);
    let ended = tokio::task::spawn_blocking(move || other.output().unwrap()).await.unwrap();
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success() && text.contains("1 passed"), "{text}");
}

/// Until a look that began from now on was answered and taken in: one may run already, the next finds what was
/// written, and the third begins when that is done.
async fn wait_for_polls(store: &FaultyStore) {
    let before = store.answered_news();
    let begun = Instant::now();
    while store.answered_news() < before + 3 {
        assert!(begun.elapsed() < Duration::from_mins(1), "nobody looks");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A real process on the same file. The first look that begins after its write finds it, and the server looks
/// twice a second, as the next test counts.
#[tokio::test(flavor = "multi_thread")]
async fn what_another_process_takes_back_is_gone_within_a_second() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.db");
    let store = Arc::new(FaultyStore::new(SqliteStore::open_file(&file).unwrap()));
    let server = server_on_store(&store).await;
    let owner = server.owner_client().await;
    owner.put("/v1/roles/r", &json!({})).await.expect_ok();
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let with_role = server.client_with(|key| key.roles = vec!["r".to_owned()]).await;
    // Positive control: without polling, the other process's revocation has no effect here.
    in_another_process(&file, &ann.key_id).await;
    ann.call_tool("needs.guest", json!({})).await.expect_ok();
    let _tended = spawn_store_watch(&server);
    wait_for_polls(&store).await;
    assert_eq!(ann.call_tool("needs.guest", json!({})).await.status, 401);
    with_role.call_tool("needs.guest", json!({})).await.expect_ok();
    in_another_process(&file, "role r").await;
    wait_for_polls(&store).await;
    assert_eq!(with_role.call_tool("needs.guest", json!({})).await.error().1, "unknown_tool");
}

#[tokio::test(start_paused = true)]
async fn the_store_is_looked_at_twice_a_second() {
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let (keys, _) = KeyStore::load(Arc::clone(&store) as Arc<dyn Store>, None).await.unwrap();
    let clock = Arc::new(testkit::clock::FakeClock::default());
    let tending = keys.watch_store(clock);
    drop(tokio::time::timeout(Duration::from_mins(1), tending).await);
    let looks = store.answered_news();
    assert!((119..=122).contains(&looks), "{looks} looks in a minute");
}

#[tokio::test]
async fn a_store_that_is_down_for_a_minute_lets_nobody_in() {
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let server = server_on_store(&store).await;
    let (ann, owner) =
        (server.agent_client("ann", PermissionLevel::User).await, server.owner_client().await);
    let look = async || server.keys.poll_changes(server.clock.as_ref()).await;
    look().await.unwrap();
    store.set_down(true);
    assert!(look().await.is_err());
    ann.call_tool("needs.guest", json!({})).await.expect_ok();
    let revoke = owner.delete(&format!("/v1/keys/{}", ann.key_id)).await.error();
    assert_eq!((revoke.0, revoke.1.as_str()), (503, "store_unavailable"));
    server.clock.advance(Duration::from_secs(59));
    assert!(look().await.is_err());
    ann.call_tool("needs.guest", json!({})).await.expect_ok();
    server.clock.advance(Duration::from_secs(1));
    for client in [&ann, &owner] {
        let error = client.call_tool("needs.guest", json!({})).await.error();
        assert_eq!((error.0, error.1.as_str()), (503, "store_unavailable"));
    }
    let mcp = crate::support::client::message("tools/list", json!({}));
    assert_eq!(ann.legacy_request(&mcp).await.status, 503);
    // A good key and a bad one look alike meanwhile.
    let bad = server.keyless_client().with_header("authorization", "Bearer tk_x");
    assert_eq!(bad.get("/v1/tools").await.error().1, "store_unavailable");
    store.set_down(false);
    look().await.unwrap();
    assert!(!names(&ann).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_answers_counts_as_one_that_is_down() {
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let (keys, _) = KeyStore::load(Arc::clone(&store) as Arc<dyn Store>, None).await.unwrap();
    let clock = testkit::clock::FakeClock::default();
    keys.poll_changes(&clock).await.unwrap();
    store.hang_requests();
    let error = keys.poll_changes(&clock).await.unwrap_err();
    assert_eq!(error.to_string(), "no answer within 5s");
}

#[tokio::test]
async fn a_stream_ends_with_its_key() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let session = ann.open_session(json!({})).await;
    let mut stream = session.open_session_stream().await;
    assert_eq!(stream.status, 200);
    server.revoke_key(&ann).await;
    assert_eq!(stream.event().await, None);
}
