//! Tests that clients which disconnect at any point leave nothing behind.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::support::installation::Installation;
use crate::support::mcp_source;
use crate::support::process_marks::{children, new_mark, wait_until};
use crate::support::run_count;
use crate::support::server_process::{Server, start_server};

/// Time limit for the cleanup after a client; machines are shared.
const GONE: Duration = Duration::from_secs(30);
/// Clients at once.
const LANES: usize = 8;
/// Actions of a client, in rotation.
const WAYS: usize = 6;

struct ConnectionSite {
    address: String,
    key: String,
}

impl ConnectionSite {
    fn of(server: &Server) -> Self {
        let address = server.url.strip_prefix("http://").unwrap().to_owned();
        let key = std::fs::read_to_string(server.data.join("agent.key")).unwrap();
        Self { address, key: key.trim().to_owned() }
    }

    #[expect(clippy::disallowed_methods, reason = "a client that misbehaves is no client of ours")]
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).await.unwrap()
    }

    fn post(&self, more: &str, body: &str) -> String {
        let length = body.len();
        format!("POST /mcp HTTP/1.1\r\n{}content-length: {length}\r\n{more}\r\n{body}", self.head())
    }

    fn head(&self) -> String {
        let Self { address, key } = self;
        format!(
            "host: {address}\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n"
        )
    }
}

/// Everything up to the end of the head, and what came with it.
async fn head(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    while !text.windows(4).any(|window| window == b"\r\n\r\n") {
        assert!(
            stream.read_buf(&mut text).await.unwrap() > 0,
            "{}",
            String::from_utf8_lossy(&text)
        );
    }
    String::from_utf8_lossy(&text).into_owned()
}

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hi"},"_meta":{"progressToken":1}}}"#;
const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}}"#;
const LISTEN: &str = r#"{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#;

/// Sends a request and waits for the head of a good answer.
async fn asked(site: &ConnectionSite, request: &str) -> (TcpStream, String) {
    let mut stream = site.connect().await;
    stream.write_all(request.as_bytes()).await.unwrap();
    let answer = head(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    (stream, answer)
}

/// Opens a session and its stream of notifications.
async fn session(site: &ConnectionSite) -> [TcpStream; 2] {
    let (hello, answer) = asked(site, &site.post("", HELLO)).await;
    let session = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
    let session = session.unwrap_or_else(|| panic!("{answer}"));
    let get = format!("GET /mcp HTTP/1.1\r\n{}mcp-session-id: {session}\r\n\r\n", site.head());
    [hello, asked(site, &get).await.0]
}

/// Comes, does something, and goes without a word.
async fn run_client(site: &ConnectionSite, way: usize) {
    let more = "mcp-protocol-version: 2026-07-28\r\nmcp-method: subscriptions/listen\r\n";
    match way % WAYS {
        0 => drop(site.connect().await),
        1 => site.connect().await.write_all(b"POST /mcp HTTP/1.1\r\nhost: loc").await.unwrap(),
        2 => site.connect().await.write_all(site.post("", CALL).as_bytes()).await.unwrap(),
        3 => drop(asked(site, &site.post("", CALL)).await),
        4 => drop(session(site).await),
        _ => drop(asked(site, &site.post(more, LISTEN)).await),
    }
}

async fn run_clients(site: &Arc<ConnectionSite>, count: usize) {
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let site = Arc::clone(site);
        lanes.spawn(async move {
            for at in (lane..count).step_by(LANES) {
                run_client(&site, at).await;
            }
        });
    }
    lanes.join_all().await;
}

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

fn threads(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_thousands_who_came_and_went_nothing_is_left() {
    let (count, mark) = (run_count(2_000, 10_000), new_mark());
    let home = Installation::new(&format!(
        "version: 1\nsources:\n{}",
        mcp_source::source("files", "good", &mark)
    ));
    let server = start_server(&home).await;
    let site = Arc::new(ConnectionSite::of(&server));
    let (pid, family) = (server.pid, children(server.pid));
    let before = descriptors(pid);
    run_clients(&site, WAYS * LANES * 2).await;
    // All threads that calls need are there by now.
    let before = (before, threads(pid));
    run_clients(&site, count).await;
    // Positive control: one that stays is seen.
    let stays = site.connect().await;
    assert!(wait_until(GONE, || descriptors(pid) > before.0).await);
    drop(stays);
    let gone = wait_until(GONE, || descriptors(pid) <= before.0).await;
    let after = (descriptors(pid), threads(pid));
    println!("comings and goings: {count} clients, descriptors and threads {before:?} {after:?}");
    assert!(gone && after.1 <= before.1, "{before:?} {after:?}");
    assert_eq!(children(pid), family);
    let answer = server.agent().call("echo", &serde_json::json!({"message": "hi"})).await;
    assert_eq!(answer.status, 200);
    assert!(server.stop().await.success());
}
