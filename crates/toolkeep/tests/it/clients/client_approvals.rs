//! Tests of approvals with the Python package `mcp` in both eras.

use std::process::Stdio;

use serde_json::{Value, json};
use testkit::installed_programs::installed_file;
use testkit::key_proxy;
use tokio::process::Command;

use crate::approvals::{ApprovalHome, decide, wait_for_pending};
use crate::real_support::{files, test_command};
use crate::support::server_process::start_server;

/// Mode of the client, and whether it can open a page.
const MODES: [(&str, &str); 4] =
    [("2026-07-28", "url"), ("2026-07-28", "plain"), ("legacy", "url"), ("legacy", "plain")];

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_gets_what_a_person_decided() {
    let bench = ApprovalHome::new("approvals: { per_minute: 1000 }\n");
    let server = start_server(&bench.home).await;
    let owner = server.owner();
    let key = std::fs::read_to_string(server.data.join("agent.key")).unwrap();
    let door = key_proxy::start_proxy(&format!("{}/mcp", server.url), key.trim()).await.unwrap();
    let mut n = 0;
    for (mode, can) in MODES {
        for how in ["approve", "deny", "edit"] {
            n += 10;
            let mut client: Command = test_command(installed_file("venv-mcp/bin/python")).into();
            client.arg(files().with_file_name("clients").join("held.py"));
            client.args([&door.url, mode, can, &n.to_string()]).current_dir(std::env::temp_dir());
            client.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let client = client.kill_on_drop(true).spawn().unwrap();
            let id = wait_for_pending(&owner).await;
            assert_eq!(bench.run_count(n), 0, "{mode} {can}: it ran before anybody agreed");
            let body = match how {
                "edit" => json!({ "arguments": { "n": n + 1 }, "approve": true }),
                "deny" => json!({ "reason": "not today" }),
                _ => json!({}),
            };
            decide(&owner, &id, how, &body).await;
            let ended = client.wait_with_output().await.unwrap();
            let out = String::from_utf8_lossy(&ended.stdout).into_owned();
            let err = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert!(ended.status.success(), "{mode} {can} {how}: {out}\n{err}");
            let seen: Value = serde_json::from_str(&out).unwrap();
            let denied =
                seen["text"].as_str().unwrap().contains("approval_denied: the call was denied");
            assert_eq!((seen["error"] == true, denied), (how == "deny", how == "deny"), "{seen}");
            let ran = (bench.run_count(n), bench.run_count(n + 1));
            assert_eq!(ran, (usize::from(how == "approve"), usize::from(how == "edit")), "{seen}");
            let opened = seen["opened"].as_array().unwrap();
            assert_eq!(opened.len(), usize::from(can == "url"), "{mode} {can}: {seen}");
            assert!(opened.iter().all(|url| url.as_str().unwrap().ends_with(&id)), "{seen}");
            println!("python {mode} {can}: {how}: {}", seen["text"]);
        }
    }
    assert!(server.stop().await.success());
}

/// The same without a decision: the client gets an error in both eras, and nothing runs.
#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_is_told_that_nobody_decided() {
    let bench = ApprovalHome::new("approvals: { per_minute: 1000, expires: 4s }\n");
    let server = start_server(&bench.home).await;
    let key = std::fs::read_to_string(server.data.join("agent.key")).unwrap();
    let door = key_proxy::start_proxy(&format!("{}/mcp", server.url), key.trim()).await.unwrap();
    for (n, (mode, can)) in MODES.into_iter().enumerate() {
        let n = n as u64 + 1;
        let mut client: Command = test_command(installed_file("venv-mcp/bin/python")).into();
        client.arg(files().with_file_name("clients").join("held.py"));
        client.args([&door.url, mode, can, &n.to_string()]).current_dir(std::env::temp_dir());
        client.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let ended = client.kill_on_drop(true).spawn().unwrap().wait_with_output().await.unwrap();
        let out = String::from_utf8_lossy(&ended.stdout).into_owned();
        let err = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success(), "{mode} {can}: {out}\n{err}");
        let seen: Value = serde_json::from_str(&out).unwrap();
        assert!(
            seen["error"] == true && seen["text"].to_string().contains("approval_expired"),
            "{seen}"
        );
        assert_eq!(bench.run_count(n), 0);
        println!("python {mode} {can}: expire: {}", seen["text"]);
    }
    assert!(server.stop().await.success());
}
