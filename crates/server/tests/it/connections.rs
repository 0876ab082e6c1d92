//! Tests of slow connections, disconnecting clients and server shutdown.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tool::call_outcome::CallStatus;
use tool::{PermissionLevel, SideEffects};

use crate::support::client::{connect, message, modern_message, try_connect};
use crate::support::{FixtureServer, Gate, tools, within_a_minute};

/// All that comes until the other side closes.
async fn rest_of(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset is an end as well.
    drop(within_a_minute(stream.read_to_end(&mut bytes)).await);
    String::from_utf8(bytes).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_head_that_does_not_end_is_cut() {
    let server = FixtureServer::new().await;
    let mut stream = connect(server.address).await;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").await.unwrap();
    let begun = Instant::now();
    let answer = rest_of(&mut stream).await;
    assert!(!answer.contains("200 OK"), "{answer}");
    assert!((9..=11).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    // Positive control: the same head, ended within its time.
    let mut stream = connect(server.address).await;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    stream.write_all(b"a\r\nConnection: close\r\n\r\n").await.unwrap();
    assert!(rest_of(&mut stream).await.starts_with("HTTP/1.1 200 OK"));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_end_is_cut() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for path in ["/v1/calls", "/mcp"] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\n{}Content-Length: 100\r\n\r\n{{",
            ann.authorization_line()
        );
        let mut stream = connect(server.address).await;
        stream.write_all(head.as_bytes()).await.unwrap();
        let begun = Instant::now();
        let answer = rest_of(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request"), "{answer}");
        assert!(answer.contains("the body was not received within 30 s"), "{answer}");
        assert!((29..=41).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn a_head_without_end_is_refused() {
    let server = FixtureServer::new().await;
    let many = (0..200).fold(String::new(), |head, i| head + &format!("X-{i}: a\r\n"));
    let long = format!("X-Long: {}\r\n", "a".repeat(1 << 20));
    for more in [many, long] {
        let mut stream = connect(server.address).await;
        let head = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{more}\r\n");
        // The server may close before all is written.
        drop(stream.write_all(head.as_bytes()).await);
        let answer = rest_of(&mut stream).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
    assert_eq!(server.keyless_client().get("/healthz").await.status, 200);
}

#[tokio::test]
async fn a_server_that_stops_ends_what_runs_and_takes_nothing_more() {
    let gate = Gate::new();
    let server = FixtureServer::with_offers(vec![tools::tool_offer(
        tools::test_tool("waits"),
        gate.clone(),
    )])
    .await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let call = ann.call_tool("waits", json!({}));
    let stop = async {
        gate.entered().await;
        server.stop.cancel();
        within_a_minute(async { while try_connect(server.address).await.is_ok() {} }).await;
        assert_eq!(server.serving.len(), 1, "the server waits for its call");
        gate.release_call();
    };
    let (reply, ()) = tokio::join!(call, stop);
    assert_eq!(reply.expect_ok()["result"], "opened");
    within_a_minute(server.serving.wait()).await;
}

/// A client that goes away takes its call along, by whichever door it came.
#[tokio::test]
async fn a_caller_who_goes_away_gives_its_call_up() {
    let call = json!({"name": "waits"});
    for (effects, status) in [
        (SideEffects::Unknown, CallStatus::Cancelled),
        (SideEffects::read_only(), CallStatus::Abandoned),
    ] {
        for door in ["rest", "legacy", "modern", "stream"] {
            let gate = Gate::new();
            let waits = tools::tool_with("waits", |t| t.traits.effects = effects.clone());
            let server =
                FixtureServer::with_offers(vec![tools::tool_offer(waits, gate.clone())]).await;
            let ann = server.agent_client("ann", PermissionLevel::User).await;
            let asked = async {
                match door {
                    "rest" => ann.call_tool("waits", json!({})).await,
                    "legacy" => ann.legacy_request(&message("tools/call", call.clone())).await,
                    "modern" => ann.modern_request("tools/call", call.clone()).await,
                    _ => {
                        let mut message = modern_message("tools/call", call.clone());
                        message["params"]["_meta"]["progressToken"] = json!(1);
                        ann.modern_message(&message).await
                    }
                }
            };
            tokio::select! {
                reply = asked => panic!("{door} answered {reply:?}"),
                () = gate.entered() => {}
            }
            // Nobody opens the gate: only the cancel ends the call, and with it the drain.
            server.wait_until_drained().await;
            let ends: Vec<_> = server.recorded_ends().iter().map(|end| end.status).collect();
            assert_eq!(ends, [status], "{door}");
        }
    }
}

/// One `ping` of the older revisions, with more lines in its head.
fn ping(credential: &str, id: u32, lines: &str) -> String {
    let body = json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\n{credential}Content-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{lines}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The answers in `text` by their ids, in their order; each has a status and a length.
fn answered(text: &str) -> Vec<u64> {
    let bodies = text.split("HTTP/1.1 200 OK\r\n").skip(1).map(|answer| {
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{answer}");
        assert!(
            head.contains("date: ") && head.contains("content-type: application/json"),
            "{answer}"
        );
        serde_json::from_str::<serde_json::Value>(body).unwrap()["id"].as_u64().unwrap()
    });
    bodies.collect()
}

/// The fast path and the slow path give the same responses on one connection, however requests are
/// split.
#[tokio::test]
async fn a_connection_goes_from_the_short_way_to_the_long_one_and_loses_nothing() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let own = ann.authorization_line();
    let odd = "Connection: x\r\n";
    let requests = [
        ping(&own, 1, ""),
        ping(&own, 22, ""),
        ping(&own, 333, "X-Own: 1\r\n"),
        ping(&own, 4, odd),
        ping(&own, 55, ""),
        ping(&own, 6, "Connection: close\r\n"),
    ];
    let all = requests.concat();
    for at_once in [all.len(), 1_000, 333, 7] {
        let mut stream = connect(server.address).await;
        for piece in all.as_bytes().chunks(at_once) {
            stream.write_all(piece).await.unwrap();
            stream.flush().await.unwrap();
            tokio::task::yield_now().await;
        }
        let answers = rest_of(&mut stream).await;
        assert_eq!(answered(&answers), [1, 22, 333, 4, 55, 6], "{at_once}: {answers}");
    }
    // A client that closes its write half still gets its response.
    let mut stream = connect(server.address).await;
    stream.write_all(ping(&own, 9, "").as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(answered(&rest_of(&mut stream).await), [9]);
}

#[tokio::test]
async fn a_head_that_was_known_is_no_credential_for_another() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let mut stream = connect(server.address).await;
    stream.write_all(ping(&ann.authorization_line(), 1, "").as_bytes()).await.unwrap();
    let bad = ping("Authorization: Bearer nobody\r\n", 2, "");
    stream.write_all(bad.as_bytes()).await.unwrap();
    stream.write_all(ping("", 3, "Connection: close\r\n").as_bytes()).await.unwrap();
    let answers = rest_of(&mut stream).await;
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 1, "{answers}");
    assert_eq!(answers.matches("HTTP/1.1 401 Unauthorized").count(), 2, "{answers}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_asks_nothing_is_closed_and_one_that_asks_is_not() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let mut silent = connect(server.address).await;
    let begun = Instant::now();
    assert_eq!(rest_of(&mut silent).await, "");
    assert!((9..=11).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    let mut busy = connect(server.address).await;
    for _ in 0..5 {
        busy.write_all(ping(&ann.authorization_line(), 1, "").as_bytes()).await.unwrap();
        let mut answer = [0; 1_024];
        let read = within_a_minute(busy.read(&mut answer)).await.unwrap();
        assert!(answer[..read].starts_with(b"HTTP/1.1 200 OK"));
        tokio::time::sleep(Duration::from_secs(8)).await;
    }
    let begun = Instant::now();
    assert_eq!(rest_of(&mut busy).await, "");
    assert!(begun.elapsed() <= Duration::from_secs(20), "{:?}", begun.elapsed());
}
