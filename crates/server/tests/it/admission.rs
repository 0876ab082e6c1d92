//! Admission at every way into the server: the fast path, hyper beside it, the router alone, and REST.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tool::{Clock as _, Wall};

use crate::support::bench::listen;
use crate::support::client::connect;
use crate::support::{Server, soon};

/// A message that every key may send.
const BODY: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

/// How a request comes to its interface.
#[derive(Debug, Clone, Copy)]
enum Way {
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
struct Answer(String, Option<String>, String);

impl Way {
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

    fn place(self, server: &Server, router: SocketAddr) -> SocketAddr {
        if matches!(self, Self::Router) { router } else { server.address }
    }
}

/// One request on a connection, and its answer, which has a length.
async fn exchange(stream: &mut TcpStream, request: &str) -> Answer {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(soon(stream.read_u8()).await.unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let header = |name: &str| {
        let mut lines = head.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": ").map(str::to_owned))
    };
    let mut body = vec![0; header("content-length").unwrap().parse().unwrap()];
    soon(stream.read_exact(&mut body)).await.unwrap();
    let status = head.split(' ').nth(1).unwrap().to_owned();
    Answer(status, header("www-authenticate"), String::from_utf8(body).unwrap())
}

/// The answers to these lines by every way: twice on a connection, the second time with a head that is known.
async fn answers(server: &Server, router: SocketAddr, lines: &str) -> Vec<Answer> {
    let mut all = Vec::new();
    for way in Way::ALL {
        let mut stream = connect(way.place(server, router)).await;
        let first = exchange(&mut stream, &way.request(lines)).await;
        assert_eq!(exchange(&mut stream, &way.request(lines)).await, first, "{way:?}: {lines}");
        all.push(first);
    }
    all
}

/// Refused by every way in the same words, with this status.
fn assert_refused(answers: &[Answer], status: &str, lines: &str) {
    for answer in answers {
        assert_eq!(answer, &answers[0], "{lines}");
        assert_eq!(answer.0, status, "{lines}: {answer:?}");
        let body: Value = serde_json::from_str(&answer.2).unwrap();
        assert!(body["error"]["message"].is_string(), "{lines}: {body}");
    }
}

#[tokio::test]
async fn every_way_refuses_the_same_heads_in_the_same_words() {
    let server = Server::new().await;
    let (router, stop, _) = listen(server::router(&server.doors)).await;
    // Positive control: a server without admission takes all of these.
    let naive = axum::Router::new().fallback(|| async { "ok" });
    let (naive, naive_stop, _) = listen(naive).await;
    let ann = server.client(|_| {}).await;
    let end = Wall(server.clock.wall().0 + 10_000);
    let brief = server.client(|key| key.expires = Some(end)).await;
    let gone = server.client(|_| {}).await;
    let (key, brief, gone_key) = (ann.credential(), brief.credential(), gone.credential());
    let host = "Host: localhost\r\n";
    for good in [format!("{host}{key}"), format!("{host}{brief}"), format!("{host}{gone_key}")] {
        for answer in answers(&server, router, &good).await {
            assert_eq!(answer.0, "200", "{good}: {answer:?}");
        }
    }
    server.revoke(&gone).await;
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
        let taken = exchange(&mut stream, &Way::Hyper.request(&lines)).await;
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
    let server = Server::new().await;
    let (router, stop, _) = listen(server::router(&server.doors)).await;
    let gone = server.client(|_| {}).await;
    let lines = format!("Host: localhost\r\n{}", gone.credential());
    let mut streams = Vec::new();
    for way in Way::ALL {
        let mut stream = connect(way.place(&server, router)).await;
        for _ in 0..2 {
            assert_eq!(exchange(&mut stream, &way.request(&lines)).await.0, "200", "{way:?}");
        }
        streams.push((way, stream));
    }
    server.revoke(&gone).await;
    for (way, stream) in &mut streams {
        assert_eq!(exchange(stream, &way.request(&lines)).await.0, "401", "{way:?}");
    }
    stop.cancel();
}
