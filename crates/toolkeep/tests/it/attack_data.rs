//! Tests of the whole binary with attack inputs from shared data.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use testkit::shared_data::read_rows;

use crate::programs::{memory, run, start_default_server};

/// Traces of successful attacks.
fn marks() -> Vec<PathBuf> {
    let ours = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("gw_pwned") || name.contains("garak.pwnd")
    };
    let entries = std::fs::read_dir("/tmp").unwrap().flatten();
    entries.map(|entry| entry.path()).filter(|path| ours(path)).collect()
}

/// Whether plain CPython runs the script and prints output.
#[expect(clippy::disallowed_methods, reason = "the control: what has no guard")]
fn says_something(code: &str, folder: &Path) -> bool {
    let output = Command::new("timeout")
        .args(["3", "python3", "-c", &format!("print(eval({code:?}))")])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    output.status.success() && !output.stdout.is_empty()
}

/// Sandbox escape scripts from outside of this repository. Some succeed in CPython.
#[tokio::test]
async fn scripts_that_want_out_stay_in() {
    let rows = read_rows("attacks/python_escapes.jsonl");
    let (_home, server) = start_default_server().await;
    let agent = server.agent();
    let folder = tempfile::tempdir().unwrap();
    let (mut refused, mut out) = (0, 0);
    let before = memory(server.pid);
    for row in &rows {
        let code = row["code"].as_str().unwrap();
        let came = agent.post("/v1/programs", &json!({ "code": code })).await;
        let words = came.body.to_string();
        assert!(!words.contains("root:") && !words.contains("uid="), "{}: {words}", row["id"]);
        refused += usize::from(came.body["status"] != "succeeded");
        let harmless =
            ["open('/etc/passwd')", "getoutput", "getcwd", "__subclasses__", "__globals__"];
        if harmless.iter().any(|part| code.contains(part)) {
            out += usize::from(says_something(code, folder.path()));
        }
    }
    let grown = memory(server.pid).saturating_sub(before);
    assert!(grown < 20 << 10, "the server has {grown} KiB more");
    assert_eq!(marks(), [] as [std::path::PathBuf; 0]);
    assert!(out >= 3, "CPython does not let them out either: {out}");
    let next = run(&agent, json!({ "code": "6 * 7" })).await;
    assert_eq!(next["result"], 42);
    println!(
        "python_escapes as programs: {} rows, {refused} refused, 0 out, {grown} KiB more; CPython: {out} out",
        rows.len()
    );
    assert!(server.stop().await.success());
}
