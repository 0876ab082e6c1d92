//! Tests of sessions in the handshake era: sealed, bound to one key and one endpoint.

use serde_json::{Value, json};
use tool::{PermissionLevel, Secret};

use crate::support::client::message;
use crate::support::{Client, FixtureServer, test_server::ServerSetup, tools, within_a_minute};

async fn ping(client: &Client) -> u16 {
    client.legacy_request(&message("ping", json!({}))).await.status.as_u16()
}

fn id_of(reply: &crate::support::Reply) -> String {
    reply.header("mcp-session-id").unwrap().to_owned()
}

async fn begin(client: &Client) -> String {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
    id_of(&client.legacy_request(&message("initialize", params)).await)
}

#[tokio::test]
async fn a_session_is_of_one_key_at_one_endpoint() {
    let server = FixtureServer::new().await;
    let (ann, eve) = (
        server.agent_client("ann", PermissionLevel::User).await,
        server.agent_client("eve", PermissionLevel::User).await,
    );
    let id = begin(&ann).await;
    assert!(id.bytes().all(|byte| byte.is_ascii_graphic()));
    assert_eq!(ping(&ann.with_header("mcp-session-id", &id)).await, 200);
    // Another's key, another endpoint, another text, and what is none.
    assert_eq!(ping(&eve.with_header("mcp-session-id", &id)).await, 404);
    assert_eq!(ping(&ann.with_endpoint("/mcp/s").with_header("mcp-session-id", &id)).await, 404);
    let mut other = id.clone().into_bytes();
    other[20] = if other[20] == b'A' { b'B' } else { b'A' };
    for bad in [std::str::from_utf8(&other).unwrap(), "x", &"A".repeat(9_000)] {
        let reply = ann
            .with_header("mcp-session-id", bad)
            .legacy_request(&message("ping", json!({})))
            .await;
        assert_eq!(reply.status, 404, "{bad}");
        let told = "the session is invalid or has expired; start a new one with `initialize`";
        assert_eq!(reply.json()["error"]["message"], told);
    }
    // A stateless client's header means nothing.
    let modern =
        ann.with_header("mcp-session-id", "x").modern_request("tools/list", json!({})).await;
    assert_eq!(modern.status, 200);
}

#[tokio::test]
async fn a_session_that_was_ended_does_not_hold() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let (one, two) = (begin(&ann).await, begin(&ann).await);
    let (one, two) =
        (ann.with_header("mcp-session-id", &one), ann.with_header("mcp-session-id", &two));
    let mut stream = one.open_session_stream().await;
    assert_eq!(one.delete("/mcp").await.status, 204);
    assert_eq!(stream.next().await, Value::Null, "its stream ends with it");
    assert_eq!((ping(&one).await, ping(&two).await), (404, 200));
    assert_eq!(one.delete("/mcp").await.status, 404);
}

#[tokio::test]
async fn a_session_holds_for_its_time() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let ann = ann.with_header("mcp-session-id", &begin(&ann).await);
    server.clock.advance(std::time::Duration::from_hours(29 * 24));
    assert_eq!(ping(&ann).await, 200);
    server.clock.advance(std::time::Duration::from_hours(2 * 24));
    assert_eq!(ping(&ann).await, 404);
}

/// None of an installation's servers stores it, and each opens it; another installation's does not.
#[tokio::test]
async fn any_server_of_an_installation_opens_a_session() {
    let open = |secret: &str| {
        let (open, secret) = (Some(PermissionLevel::User), Some(Secret::new(secret)));
        FixtureServer::with_setup(ServerSetup {
            anonymous_level: open,
            secret,
            offers: tools::standard_offers(),
            ..ServerSetup::default()
        })
    };
    let (a, b, other) = (open("one").await, open("one").await, open("two").await);
    let id = begin(&a.keyless_client()).await;
    assert_eq!(ping(&b.keyless_client().with_header("mcp-session-id", &id)).await, 200);
    assert_eq!(ping(&other.keyless_client().with_header("mcp-session-id", &id)).await, 404);
}

#[tokio::test]
async fn a_later_stream_takes_the_place_of_the_one_before() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await.open_session(json!({})).await;
    let mut first = ann.open_session_stream().await;
    assert_eq!(
        (first.status.as_u16(), &first.headers["content-type"]),
        (200, &"text/event-stream".parse().unwrap())
    );
    let second = ann.open_session_stream().await;
    assert_eq!(first.next().await, Value::Null);
    assert_eq!(ann.send(hyper::Method::HEAD, "/mcp", bytes::Bytes::new()).await.status, 405);
    drop(second);
    assert_eq!(ann.with_header("accept", "application/json").get("/mcp").await.status, 406);
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_says_that_it_lives() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await.open_session(json!({})).await;
    let mut stream = ann.open_session_stream().await;
    let begun = tokio::time::Instant::now();
    for _ in 0..3 {
        assert_eq!(within_a_minute(stream.event()).await.as_deref(), Some(":"));
    }
    let elapsed = begun.elapsed().as_secs();
    assert!((44..=47).contains(&elapsed), "{elapsed}");
}

#[tokio::test]
async fn large_capabilities_are_kept_in_short() {
    let server = FixtureServer::with_offers(vec![tools::tool_offer(
        tools::test_tool("asks"),
        crate::support::executors::AskingExecutor::elicitation(),
    )])
    .await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let many: serde_json::Map<_, _> =
        (0..500).map(|i| (format!("x{i}"), json!({"long": "x".repeat(50)}))).collect();
    let ann = ann.open_session(json!({"experimental": many, "elicitation": {"form": {}}})).await;
    let mut stream = ann.legacy_stream(&message("tools/call", json!({"name": "asks"}))).await;
    assert_eq!(stream.next().await["method"], "elicitation/create");
}
