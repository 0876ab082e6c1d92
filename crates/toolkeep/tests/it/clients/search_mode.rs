//! Test of search mode with the Python and TypeScript SDKs: search, description, call, approval.

use serde_json::{Value, json};
use tokio::process::Command;

use super::Client;
use crate::approvals::{ApprovalHome, decide, wait_for_pending};
use crate::support::server_process::start_server;

/// Clients with the revision that each speaks. The TypeScript SDK has one revision.
const CLIENTS: [(Client, &str); 3] = [
    (Client::Python("legacy"), "2025-11-25"),
    (Client::Python("2026-07-28"), "2026-07-28"),
    (Client::Node, "2025-11-25"),
];

fn command(client: Client, url: &str, n: u64) -> Command {
    let mut command = client.script_command("search_mode", url);
    command.arg(n.to_string());
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_searches_describes_calls_and_gets_what_a_person_decided() {
    let bench = ApprovalHome::new("approvals: { per_minute: 1000 }\n");
    let server = start_server(&bench.home).await;
    let owner = server.owner();
    let key = std::fs::read_to_string(server.data.join("agent.key")).unwrap();
    let url = format!("{}/mcp?mode=search", server.url);
    let mut n = 0;
    for (client, revision) in CLIENTS {
        for how in ["approve", "deny"] {
            n += 1;
            let mut command = command(client, &url, n);
            let running = command.env("TOOLKEEP_KEY", key.trim()).spawn().unwrap();
            let id = wait_for_pending(&owner).await;
            assert_eq!(bench.run_count(n), 0, "{client:?}: it ran before anybody agreed");
            let pending = owner.get("/v1/approvals").await.body;
            assert!(pending.to_string().contains("\"wipe\""), "{pending}");
            decide(&owner, &id, how, &json!({})).await;
            let ended = running.wait_with_output().await.unwrap();
            let out = String::from_utf8_lossy(&ended.stdout).into_owned();
            let err = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert!(ended.status.success(), "{client:?} {how}: {out}\n{err}");
            let seen: Value = serde_json::from_str(&out).unwrap();
            let listed = json!(["search_tools", "describe_tools", "call_tool"]);
            assert_eq!((&seen["tools"], &seen["protocol"]), (&listed, &json!(revision)));
            let described = seen["described"].as_array().unwrap();
            assert_eq!((described.len(), &described[0]["name"]), (1, &json!("wipe")), "{seen}");
            assert!(described[0]["inputSchema"]["properties"]["n"].is_object(), "{seen}");
            assert!(seen["wrong"].as_str().unwrap().contains("invalid_arguments"), "{seen}");
            assert_eq!(seen["error"], how == "deny", "{seen}");
            assert_eq!(bench.run_count(n), usize::from(how == "approve"), "{seen}");
            println!("{client:?} {revision}: {how}: {}", seen["text"]);
        }
    }
    assert!(server.stop().await.success());
}
