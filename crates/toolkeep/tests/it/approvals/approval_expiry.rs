use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use super::{ApprovalHome, decide, pending_call, resume};
use crate::real_support::{expect_ok, test_command, toolkeep};
use crate::support::server_process::start_server;

/// Nobody decides in time, whichever way the caller waits; and it never runs after that.
#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_decides_expires_at_each_door_and_never_runs() {
    let bench = ApprovalHome::new("approvals: { expires: 2s }\n");
    let server = start_server(&bench.home).await;
    let (agent, owner) = (server.agent(), server.owner());
    // REST, waiting.
    let body = json!({ "tool": "wipe", "arguments": { "n": 1 } });
    let waited = agent.post("/v1/calls?wait=30s", &body).await;
    assert_eq!(waited.code(), "approval_expired", "{waited:?}");
    // REST, coming back later.
    let id = pending_call(&agent, 2).await;
    assert_eq!(resume(&agent, &id).await.code(), "approval_expired");
    let late = owner.post(&format!("/v1/approvals/{id}/approve"), &json!({})).await;
    assert_eq!((late.status, late.code()), (409, "conflict"), "{late:?}");
    let shown = expect_ok(owner.get(&format!("/v1/approvals/{id}")).await);
    assert_eq!(shown["state"], "expired");
    // The command line.
    let call = toolkeep()
        .args(["tool", "call", "wipe", "n=3", "--agent", "--wait", "--data"])
        .arg(&server.data)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&call.stderr).into_owned();
    assert!(call.status.code() == Some(3) && err.contains("approval_expired"), "{err}");
    // MCP, as a client that can only wait.
    let params = json!({ "name": "wipe", "arguments": { "n": 4 } });
    let answer = mcp(&server.url, &server.data, &params).await;
    assert!(answer.to_string().contains("approval_expired"), "{answer}");
    assert!((1..5).all(|n| bench.run_count(n) == 0));
    // The control: in time it runs; and the time is read while the server runs.
    fs::write(
        bench.home.config(),
        fs::read_to_string(bench.home.config()).unwrap().replace("2s", "1h"),
    )
    .unwrap();
    let mut n = 10;
    let id = loop {
        let id = pending_call(&agent, n).await;
        let shown = expect_ok(owner.get(&format!("/v1/approvals/{id}")).await);
        // To the hour: minutes and seconds of both are the same.
        let minutes = |key: &str| shown[key].as_str().unwrap().get(13..).unwrap().to_owned();
        if minutes("expires") == minutes("created") {
            break id;
        }
        n += 1;
        assert!(n < 40, "the configuration is not read");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    };
    decide(&owner, &id, "approve", &json!({})).await;
    assert_eq!(resume(&agent, &id).await.status, 200);
    assert_eq!(bench.run_count(n), 1);
    assert!(server.stop().await.success());
}

/// One call of MCP 2025-11-25 by hand: a handshake, then `tools/call`; the last message of the answer.
async fn mcp(url: &str, data: &std::path::Path, params: &Value) -> Value {
    let key = fs::read_to_string(data.join("agent.key")).unwrap();
    let url = format!("{url}/mcp");
    let params = params.to_string();
    tokio::task::spawn_blocking(move || {
        let post = |body: &str, session: Option<&str>| {
            let mut curl = test_command("curl");
            curl.args(["-s", "-i", "--max-time", "90", "-d", body, &url]);
            curl.args(["-H", "Content-Type: application/json"]);
            curl.args(["-H", "Accept: application/json, text/event-stream"]);
            curl.args(["-H", &format!("Authorization: Bearer {}", key.trim())]);
            if let Some(session) = session {
                curl.args(["-H", &format!("Mcp-Session-Id: {session}")]);
                curl.args(["-H", "MCP-Protocol-Version: 2025-11-25"]);
            }
            String::from_utf8(curl.output().unwrap().stdout).unwrap()
        };
        let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
        let hello = post(hello, None);
        let session = hello.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("mcp-session-id").then(|| value.trim().to_owned())
        });
        let session = session.unwrap_or_else(|| panic!("no session: {hello}"));
        let call = format!(r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{params}}}"#);
        let answer = post(&call, Some(&session));
        let message = answer.lines().rev().find_map(|line| {
            let line = line.strip_prefix("data: ").unwrap_or(line);
            serde_json::from_str::<Value>(line).ok().filter(Value::is_object)
        });
        message.unwrap_or_else(|| panic!("no answer: {answer}"))
    })
    .await
    .unwrap()
}
