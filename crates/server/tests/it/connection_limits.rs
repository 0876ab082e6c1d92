//! Tests that unauthenticated connections cannot keep other clients out.

use std::net::SocketAddr;

use serde_json::json;
use server::{ConnectionWorkers, HttpService};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tool::PermissionLevel;

use crate::support::client::connect;
use crate::support::{FixtureServer, within_a_minute};

/// Serves on a port of its own, with so many connections.
async fn listening(server: &FixtureServer, connections: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (front, stop) = (HttpService::new(&server.state), server.stop.clone());
    let workers = ConnectionWorkers::on_current_runtime().with_max_connections(connections);
    drop(server.serving.spawn(async move {
        server::serve_http(listener, front, &workers, stop).await;
    }));
    address
}

/// Sends a ping of MCP; whether it was answered.
async fn pings(stream: &mut TcpStream, credential: &str) -> bool {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string();
    let text = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\n{credential}Content-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut answer = [0; 4096];
    if stream.write_all(text.as_bytes()).await.is_err() {
        return false;
    }
    match within_a_minute(stream.read(&mut answer)).await {
        Ok(read) => answer[..read].starts_with(b"HTTP/1.1 200 OK"),
        Err(_) => false,
    }
}

/// Whether the other side has closed it.
async fn is_closed(stream: &mut TcpStream) -> bool {
    matches!(within_a_minute(stream.read(&mut [0; 64])).await, Ok(0) | Err(_))
}

#[tokio::test]
async fn silent_connections_and_those_without_a_key_keep_no_client_out() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await.authorization_line();
    let address = listening(&server, 8).await;
    let mut own = connect(address).await;
    assert!(pings(&mut own, &ann).await);
    // Far more connections than the limit, all silent or without a key.
    let mut silent = Vec::new();
    for round in 0..40 {
        let mut stream = connect(address).await;
        if round % 4 == 0 {
            stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        }
        silent.push(stream);
    }
    let mut new = connect(address).await;
    assert!(pings(&mut new, &ann).await, "a new client is kept out");
    assert!(pings(&mut own, &ann).await, "a known client was closed");
    // The oldest made room; what was answered before its end may still be read.
    for stream in silent.iter_mut().take(30) {
        let mut all = Vec::new();
        drop(within_a_minute(stream.read_to_end(&mut all)).await);
    }
    // Four of eight connections may be unauthenticated; as many clients as fit stay connected.
    let mut clients = vec![own, new];
    for _ in 0..2 {
        let mut more = connect(address).await;
        assert!(pings(&mut more, &ann).await);
        clients.push(more);
    }
    for client in &mut clients {
        assert!(pings(client, &ann).await);
    }
    let mut last = connect(address).await;
    last.write_all(b"GET /v1/tools HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = [0; 4096];
    let read = within_a_minute(last.read(&mut answer)).await.unwrap();
    assert!(answer[..read].starts_with(b"HTTP/1.1 401"));
    for _ in 0..4 {
        silent.push(connect(address).await);
    }
    assert!(is_closed(&mut last).await, "without a key it makes room");
}
