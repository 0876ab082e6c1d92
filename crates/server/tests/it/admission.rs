//! Tests of admission at every entry path: the fast path, hyper, the router alone, and REST.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tool::{Clock as _, WallTime};

use crate::support::client::connect;
use crate::support::test_server::serve_on_free_port;
use crate::support::{FixtureServer, within_a_minute};

/// A message that every key may send.
const BODY: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

/// Form in which a request reaches its interface.
#[derive(Debug, Clone, Copy)]
enum EntryPath {
    /// Read and answered without hyper.
    Fast,
    /// By hyper, because of its `Connection`, and then without the router.
    Hyper,
    /// By hyper and the router.
    Router,
    Rest,
}

/// An answer: status, challenge and body.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RawAnswer(String, Option<String>, String);

impl EntryPath {
    const ALL: [Self; 4] = [Self::Fast, Self::Hyper, Self::Router, Self::Rest];

    /// The request with these lines in its head.
    fn request(self, lines: &str) -> String {
        let mcp = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
                   MCP-Protocol-Version: 2025-11-25\r\n";
        let length = BODY.len();
        let more = if matches!(self, Self::Fast) { "" } else { "Connection: keep-alive, x\r\n" };
        match self {
            Self::Rest => format!("GET /v1/tools HTTP/1.1\r\n{lines}\r\n"),
            _ => format!(
                "POST /mcp HTTP/1.1\r\n{lines}{more}{mcp}Content-Length: {length}\r\n\r\n{BODY}"
            ),
        }
    }

    fn place(self, server: &FixtureServer, router: SocketAddr) -> SocketAddr {
        if matches!(self, Self::Router) { router } else { server.address }
    }
}

/// One request on a connection, and its answer, which has a length.
async fn exchange(stream: &mut TcpStream, request: &str) -> RawAnswer {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(within_a_minute(stream.read_u8()).await.unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let header = |name: &str| {
        let mut lines = head.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": ").map(str::to_owned))
    };
    let mut body = vec![0; header("content-length").unwrap().parse().unwrap()];
    within_a_minute(stream.read_exact(&mut body)).await.unwrap();
    let status = head.split(' ').nth(1).unwrap().to_owned();
    RawAnswer(status, header("www-authenticate"), String::from_utf8(body).unwrap())
}

/// The answers to these lines by every way: twice on a connection, the second time with a head that is known.
async fn answers(server: &FixtureServer, router: SocketAddr, lines: &str) -> Vec<RawAnswer> {
    let mut all = Vec::new();
    for way in EntryPath::ALL {
        let mut stream = connect(way.place(server, router)).await;
        let first = exchange(&mut stream, &way.request(lines)).await;
        assert_eq!(exchange(&mut stream, &way.request(lines)).await, first, "{way:?}: {lines}");
        all.push(first);
    }
    all
}

/// Refused by every way in the same words, with this status.
fn assert_refused(answers: &[RawAnswer], status: &str, lines: &str) {
    for answer in answers {
        assert_eq!(answer, &answers[0], "{lines}");
        assert_eq!(answer.0, status, "{lines}: {answer:?}");
        let body: Value = serde_json::from_str(&answer.2).unwrap();
        assert!(body["error"]["message"].is_string(), "{lines}: {body}");
    }
}

#[tokio::test]
async fn every_way_refuses_the_same_heads_in_the_same_words() {
    let server = FixtureServer::new().await;
    let (router, stop, _) = serve_on_free_port(server::build_router(&server.state)).await;
    // Positive control: a server without admission takes all of these.
    let naive = axum::Router::new().fallback(|| async { "ok" });
    let (naive, naive_stop, _) = serve_on_free_port(naive).await;
    let ann = server.client_with(|_| {}).await;
    let end = WallTime(server.clock.wall_now().0 + 10_000);
    let brief = server.client_with(|key| key.expires_at = Some(end)).await;
    let gone = server.client_with(|_| {}).await;
    let (key, brief, gone_key) =
        (ann.authorization_line(), brief.authorization_line(), gone.authorization_line());
    let host = "Host: localhost\r\n";
    for good in [format!("{host}{key}"), format!("{host}{brief}"), format!("{host}{gone_key}")] {
        for answer in answers(&server, router, &good).await {
            assert_eq!(answer.0, "200", "{good}: {answer:?}");
        }
    }
    server.revoke_key(&gone).await;
    server.clock.advance(Duration::from_secs(20));
    let wrong = key.replace("Bearer ", "Bearer x");
    for (status, lines) in [
        ("403", format!("Host: evil.com\r\n{key}")),
        ("403", format!("Host: localhost@evil.com\r\n{key}")),
        ("403", format!("Host: localhost\r\nHost: localhost\r\n{key}")),
        ("403", key.clone()),
        ("403", format!("{host}Origin: http://evil.com\r\n{key}")),
        ("403", format!("{host}Origin: null\r\n{key}")),
        ("403", format!("{host}Origin: http://localhost\r\nOrigin: http://localhost\r\n{key}")),
        // The first check is the one that answers.
        ("403", "Host: evil.com\r\n".to_owned()),
        ("401", host.to_owned()),
        ("401", format!("{host}{wrong}")),
        ("401", format!("{host}Authorization: Basic YTpi\r\n")),
        ("401", format!("{host}Authorization: Bearer\r\n")),
        ("401", format!("{host}{key}{key}")),
        ("401", format!("{host}{brief}")),
        ("401", format!("{host}{gone_key}")),
        ("400", format!("{host}{key}Toolkeep-Read-Only: maybe\r\n")),
    ] {
        assert_refused(&answers(&server, router, &lines).await, status, &lines);
        let mut stream = connect(naive).await;
        let taken = exchange(&mut stream, &EntryPath::Hyper.request(&lines)).await;
        assert_eq!(taken.0, "200", "{lines}");
    }
    for answer in answers(&server, router, &format!("{host}{key}")).await {
        assert_eq!(answer.0, "200");
    }
    stop.cancel();
    naive_stop.cancel();
}

#[tokio::test]
async fn a_known_head_is_refused_once_its_key_is_revoked() {
    let server = FixtureServer::new().await;
    let (router, stop, _) = serve_on_free_port(server::build_router(&server.state)).await;
    let gone = server.client_with(|_| {}).await;
    let lines = format!("Host: localhost\r\n{}", gone.authorization_line());
    let mut streams = Vec::new();
    for way in EntryPath::ALL {
        let mut stream = connect(way.place(&server, router)).await;
        for _ in 0..2 {
            assert_eq!(exchange(&mut stream, &way.request(&lines)).await.0, "200", "{way:?}");
        }
        streams.push((way, stream));
    }
    server.revoke_key(&gone).await;
    for (way, stream) in &mut streams {
        assert_eq!(exchange(stream, &way.request(&lines)).await.0, "401", "{way:?}");
    }
    stop.cancel();
}
