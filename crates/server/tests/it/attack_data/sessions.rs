//! Tests of sessions and handles that belong to another caller.

use serde_json::json;
use testkit::shared_data::read_rows;
use tool::PermissionLevel;

use super::session_handles;
use crate::support::client::{message, send_raw};
use crate::support::{Client, FixtureServer};

/// Response to a caller with another caller's session ID.
async fn with_session(client: &Client, session: &str) -> u16 {
    let client = client.with_header("mcp-session-id", session);
    client.legacy_request(&message("tools/list", json!({}))).await.status.as_u16()
}

/// Runs a row, and returns whether it applies here.
async fn tried_here(name: &str, server: &FixtureServer, eve: &Client, id: &str) -> bool {
    match name {
        "session id of user A used by user B" => assert_eq!(with_session(eve, id).await, 404),
        "session id guess (128-bit random)" => {
            for guess in
                ["", "1", "00000000000000000000000000000000", &id.chars().rev().collect::<String>()]
            {
                assert_ne!(with_session(eve, guess).await, 200, "{guess}");
            }
        }
        "session id in URL" => {
            let client = eve.with_query(&format!("?mcp-session-id={id}&sessionId={id}"));
            assert_ne!(
                client
                    .with_header("mcp-session-id", "x")
                    .legacy_request(&message("tools/list", json!({})))
                    .await
                    .status,
                200
            );
        }
        "session id with CRLF" => {
            let request = format!(
                "POST /mcp HTTP/1.1\r\nHost: localhost\r\n{}Mcp-Session-Id: {id}\r\n x: y\r\n\r\n",
                eve.authorization_line()
            );
            let answer = send_raw(server.address, request.as_bytes()).await;
            assert!(!answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
        _ => return at_length(name, eve, id).await,
    }
    true
}

async fn at_length(name: &str, eve: &Client, id: &str) -> bool {
    match name {
        "10,000 sessions by one caller" => {
            for _ in 0..10_000_usize / if deep() { 1 } else { 20 } {
                drop(eve.open_session(json!({})).await);
            }
        }
        "GET SSE stream of another session" => {
            assert_eq!(
                eve.with_header("mcp-session-id", id).open_session_stream().await.status,
                404
            );
        }
        "DELETE other's session" => {
            assert_ne!(eve.with_header("mcp-session-id", id).delete("/mcp").await.status, 200);
        }
        _ => return false,
    }
    true
}

#[tokio::test]
async fn a_session_is_its_callers_alone() {
    let rows = read_rows("attacks/authz_cases.jsonl");
    let server = FixtureServer::new().await;
    let (ann, eve) = (
        server.agent_client("ann", PermissionLevel::User).await,
        server.agent_client("eve", PermissionLevel::User).await,
    );
    let id = ann.open_session(json!({})).await.session_id();
    let mut tried = 0;
    for row in rows.iter().filter(|row| row["family"] == "mcp-session") {
        let name = row["name"].as_str().unwrap();
        let here =
            tried_here(name, &server, &eve, &id).await || session_handles::run_row(name).await;
        assert!(here, "a row that this test does not know: {name}");
        tried += 1;
    }
    println!("authz_cases, mcp-session: {tried} rows tried, 0 identity changes");
    assert_eq!(tried, 15);
    // Positive control: it is there, and its own caller's.
    assert_eq!(with_session(&ann, &id).await, 200);
}

#[expect(clippy::disallowed_methods, reason = "whether full counts are asked for")]
fn deep() -> bool {
    std::env::var("TOOLKEEP_DEEP").is_ok_and(|word| word == "1")
}
