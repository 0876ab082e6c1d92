//! Tests of `toolkeep node forward`, a proxy for a privileged runtime.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sdk::{Node, NodeOptions, Tool, ToolSet, call_tool};
use serde_json::{Value, json};

use super::node_serve::{address, waiting};
use super::{joined, once};
use crate::real_support::child_program::Program;
use crate::real_support::{CommandOutput, toolkeep};
use crate::support::installation::Installation;
use crate::support::server_process::{READY_LIMIT, Server, start_server};

const FUNCTIONS: &str = "
version: 1
rules:
  - { deny: [disk_wipe], reason: disks stay as they are }
  - { allow: ['disk_*'] }
definitions:
  disk_free: { description: What is left, input_spec: { path: string } }
  disk_wipe: { description: Wipes, input_spec: { path: string } }
";

/// A runtime that counts what it ran.
async fn runtime(socket: &Path) -> (Node, Arc<AtomicUsize>) {
    let ran = Arc::new(AtomicUsize::new(0));
    let mut tools = ToolSet::default();
    for name in ["disk_free", "disk_wipe", "reboot"] {
        let ran = Arc::clone(&ran);
        let tool = Tool::typed(name, move |_: Value| {
            ran.fetch_add(1, Ordering::SeqCst);
            async move { Ok::<_, String>(json!({ "ran": name })) }
        });
        tools.add_tool(tool).unwrap();
    }
    let options = NodeOptions::default().node_id("runtime").socket(socket);
    (Node::start(tools, options).await.unwrap(), ran)
}

fn forward(home: &Installation, server: &Server, words: &[&str]) -> Program {
    let mut forward = toolkeep();
    forward.args(["node", "forward", "node-f"]).args(words).args(["--url", &server.url]);
    forward.arg("--registry").arg(home.path("functions.yaml"));
    forward.arg("--socket").arg(home.path("runtime.sock"));
    let log = std::fs::File::options().create(true).append(true).open(home.path("forward.txt"));
    Program::start(forward.stderr(Stdio::from(log.unwrap())))
}

#[tokio::test(flavor = "multi_thread")]
async fn valid_calls_reach_the_runtime_and_all_others_are_refused_with_the_reason() {
    let home = Installation::new("version: 1\n");
    let (server, at) = waiting(&home).await;
    let folder = joined(&server, &home, "node-f");
    home.write("functions.yaml", FUNCTIONS);
    let (runtime, ran) = runtime(&home.path("runtime.sock")).await;
    let (at, tls) = (at.to_string(), folder.display().to_string());
    let forwarder = forward(&home, &server, &["--connect", &at, "--tls", &tls]);
    let agent = server.agent();
    let said = once(&agent, "disk_free", |said| said["success"] == true).await;
    assert_eq!(said["output"], json!({"ran": "disk_free"}), "{said}");
    // Five steps, each with its trace: the record names the node's source; the forwarder was passed, and
    // the runtime has run it once.
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    let hidden = once(&agent, "disk_wipe", |said| said["error"] != "").await;
    assert_eq!(hidden["error"], "Tool 'disk_wipe' not found on any node", "{hidden}");
    // The rules are followed; one with a slip counts for nothing.
    home.write("functions.yaml", "version: 1\nrulez: []\n");
    let log = || std::fs::read_to_string(home.path("forward.txt")).unwrap();
    for _ in 0..READY_LIMIT.as_millis() / 50 {
        if log().contains("the last valid one stays active") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(log().contains("rulez"), "{}", log());
    assert_eq!(once(&agent, "disk_free", |said| said["success"] == true).await["success"], true);
    home.write(
        "functions.yaml",
        &FUNCTIONS
            .replace("deny: [disk_wipe], reason: disks stay as they are", "allow: [disk_wipe]"),
    );
    let said = once(&agent, "disk_wipe", |said| said["success"] == true).await;
    assert_eq!(said["output"], json!({"ran": "disk_wipe"}), "{said}");
    // The runtime stops and restarts: both are reported, and calls recover automatically.
    runtime.stop().await;
    let away = once(&agent, "disk_free", |said| said["success"] == false).await;
    assert_eq!(away["success"], false, "{away}");
    let (again, _) = self::runtime(&home.path("runtime.sock")).await;
    let said = once(&agent, "disk_free", |said| said["success"] == true).await;
    assert_eq!(said["success"], true, "{said}");
    forwarder.stop_program();
    again.stop().await;
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_calls_a_forwarder_straight_gets_no_further() {
    let home = Installation::new("version: 1\n");
    let server = start_server(&home).await;
    home.write("functions.yaml", FUNCTIONS);
    let (runtime, ran) = runtime(&home.path("runtime.sock")).await;
    let forwarder = forward(&home, &server, &["--listen", "127.0.0.1:0"]);
    let port = address(&forwarder).port();
    let call = async |name: &str, input: Value| call_tool(name, &input, "127.0.0.1", port).await;
    let refused = |called: sdk::ToolResult| {
        assert!(!called.success, "{called:?}");
        called.error
    };
    let wiped = refused(call("disk_wipe", json!({"path": "/"})).await);
    assert_eq!(wiped, "the node's rules deny `disk_wipe`: disks stay as they are");
    assert_eq!(refused(call("reboot", json!({})).await), "Tool 'reboot' not found.");
    let unfit = refused(call("disk_free", json!({"path": 5})).await);
    assert!(unfit.starts_with("invalid input: `/path`: "), "{unfit}");
    assert_eq!(ran.load(Ordering::SeqCst), 0, "the runtime heard of none of them");
    // Control: a result within the limit passes.
    let good = call("disk_free", json!({"path": "/"})).await;
    assert_eq!((good.success, good.output), (true, json!({"ran": "disk_free"})));
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    // Only the socket's owner and group reach the runtime.
    let mode = std::fs::metadata(home.path("runtime.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    // Plaintext beyond the loopback is refused, as is a file with a fault.
    let mut open = toolkeep();
    open.args(["node", "forward", "node-f", "--listen", "0.0.0.0:0", "--url", &server.url]);
    open.arg("--registry").arg(home.path("functions.yaml")).args(["--socket", "x.sock"]);
    let ran = CommandOutput::run_command(&mut open);
    assert!(ran.code != Some(0) && ran.err.contains("in plaintext"), "{}", ran.err);
    forwarder.stop_program();
    runtime.stop().await;
    assert!(server.stop().await.success());
}
