//! Tests of a full data directory: calls with effects are refused, others continue, and service
//! recovers once there is space.
//!
//! The server gets a small file system in its own mount namespace, so that no mount remains,
//! however the test ends.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ledger::{Disk, OsDisk};
use serde_json::json;
use tokio::time::Instant;

use crate::support::http_module::{Module, ModuleBehavior};
use crate::support::installation::Installation;
use crate::support::rest_client::Client;
use crate::support::run_count;
use crate::support::server_process::{StartingServer, spawn_under};

/// The promise for the time after there is room again.
const PROMISED: Duration = Duration::from_secs(5);

/// Calls without effects while it is full.
const READS: usize = 500;

/// More calls than the file system has room for their records.
const MAX_CALLS: usize = 100_000;

/// Starts a server whose data directory is a file system of 8 MiB. A test that exhausts the
/// ledger's reserve needs more space, so that the reserve can be allocated again.
fn start_small(home: &Installation) -> StartingServer {
    fs::create_dir(home.data()).unwrap();
    let size = run_count(8, 24);
    let script = format!("mount -t tmpfs -o size={size}m,mode=700 tmpfs \"$0\" && exec \"$@\"");
    // Who is not root is one in a user namespace, where the system allows that.
    let root = rustix::process::geteuid().is_root();
    let unshare: &[&str] = if root { &["unshare"] } else { &["unshare", "--map-root-user"] };
    let mut words: Vec<_> = unshare.iter().map(OsString::from).collect();
    words.extend(["--mount", "sh", "-c", &script].map(OsString::from));
    words.push(home.data().into());
    let starting = spawn_under(home, &words);
    // From outside, its namespace is entered through its process.
    let root = PathBuf::from(format!("/proc/{}/root", starting.pid()));
    let data = root.join(home.data().strip_prefix("/").unwrap());
    starting.with_data_dir(data)
}

/// Takes all room there is.
fn fill(data: &Path) -> PathBuf {
    use std::io::Write as _;
    let path = data.join("ballast");
    let mut file = fs::File::create(&path).unwrap();
    for bytes in [1 << 16, 1 << 12, 1] {
        while file.write_all(&vec![b'x'; bytes]).is_ok() {}
    }
    path
}

/// Calls `tool` until it is answered with `status`; how long that took, and how many calls were
/// answered otherwise. The reserve has room for the records of thousands of calls, each of which takes as long as the
/// disk does.
async fn until(agent: &Client, tool: &str, status: u16) -> (Duration, usize) {
    let (since, mut others) = (Instant::now(), 0);
    loop {
        let answered = agent.call(tool, &json!({})).await.status;
        if answered == status {
            return (since.elapsed(), others);
        }
        others += 1;
        assert!(others < MAX_CALLS, "`{tool}` is answered with {answered} and never with {status}");
    }
}

/// A call that cannot be recorded did not run, and its error has advice.
async fn refused(agent: &Client, tool: &str) {
    let reply = agent.call(tool, &json!({})).await;
    assert_eq!((reply.status, reply.code()), (503, "record_unavailable"), "{reply:?}");
    let message = reply.body["error"]["message"].as_str().unwrap();
    for words in ["was not executed", "no space left", "free some space"] {
        assert!(message.contains(words), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_stops_what_has_effects_and_nothing_else() {
    let module = Module::start("good", ModuleBehavior::Good).await;
    let source = format!("  - {{ name: good, module: '{}' }}\n", module.url());
    let home = Installation::new(&format!("version: 1\nsources:\n{source}"));
    let server = start_small(&home).wait_until_ready().await.wait_for_sources().await;
    let (agent, owner) = (server.agent(), server.owner());
    assert_eq!(agent.call("good.work", &json!({})).await.status, 200);

    let ballast = fill(&server.data);
    let (_, before) = until(&agent, "good.work", 503).await;
    // Calls that were recorded before the ledger noticed ran once each; no other call ran.
    assert_eq!(module.execution_count(), 1 + before);
    let attempts = run_count(500, 10_000);
    for n in 0..attempts {
        refused(&agent, "good.work").await;
        if n < READS {
            let reply = agent.call("echo", &json!({ "message": "still here" })).await;
            assert_eq!(reply.status, 200, "{reply:?}");
        }
    }
    let mut reads = READS;
    if attempts > READS {
        // The ledger has reserved space, which is exhausted later.
        while agent.call("echo", &json!({})).await.status == 200 {
            reads += 1;
        }
        refused(&agent, "echo").await;
        refused(&agent, "good.work").await;
    }
    let executed = module.execution_count() - 1 - before;
    assert_eq!(owner.get("/readyz").await.status, 503);
    assert_eq!(agent.get("/v1/tools").await.status, 200);
    // The store is full too: a key cannot be made, and that is an answer.
    let key = owner.post("/v1/keys", &json!({ "subject": "late" })).await;
    assert!([200, 503].contains(&key.status), "{key:?}");

    fs::remove_file(ballast).unwrap();
    let (recovered, _) = until(&agent, "good.work", 200).await;
    let key = owner.post("/v1/keys", &json!({ "subject": "late" })).await;
    assert_eq!((key.status, owner.get("/readyz").await.status), (200, 200), "{key:?}");
    assert_eq!(module.execution_count(), 1 + before + executed + 1);
    println!(
        "full: {attempts} calls with effects refused, {executed} executed; {reads} calls without \
         effects went on; recovered {recovered:?} after there was room"
    );
    assert_eq!(executed, 0);
    assert!(recovered <= PROMISED, "{recovered:?}");
    let disk: Arc<dyn Disk> = Arc::new(OsDisk);
    let report = ledger::verify_record(&server.data.join("records"), &disk, &[]).unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert!(server.stop().await.success());
}
