//! A client of MCP 2026-07-28 that writes its requests by hand and compares bytes.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::server_process::Server;

/// A client with one key at one endpoint. It declares tasks and events.
pub(crate) struct McpClient {
    address: String,
    key: String,
    path: String,
}

impl McpClient {
    pub(crate) fn new(server: &Server, key: &str, path: &str) -> Self {
        let address = server.url.strip_prefix("http://").unwrap().to_owned();
        Self { address, key: key.to_owned(), path: path.to_owned() }
    }

    #[expect(clippy::disallowed_methods, reason = "a client from outside, not a part of Toolkeep")]
    async fn connect(&self, method: &str, mut params: Value) -> TcpStream {
        let Self { address, key, path } = self;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"extensions": {
                "io.modelcontextprotocol/tasks": {}, "io.modelcontextprotocol/events": {},
            }},
        });
        let named = ["tools/call", "tasks/get", "tasks/cancel"].contains(&method);
        let name = params.get("name").or(params.get("taskId")).filter(|_| named);
        let name = name.and_then(Value::as_str).map(|name| format!("mcp-name: {name}\r\n"));
        let name = name.unwrap_or_default();
        let body =
            json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\
             content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
             mcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\n{name}\
             connection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }

    /// The body of the response, as it was received.
    pub(crate) async fn send(&self, method: &str, params: Value) -> String {
        let mut text = String::new();
        self.connect(method, params).await.read_to_string(&mut text).await.unwrap();
        text.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// The message of the response.
    pub(crate) async fn ask(&self, method: &str, params: Value) -> Value {
        let body = self.send(method, params).await;
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
    }

    /// The result of the response, which must be one.
    pub(crate) async fn result(&self, method: &str, params: Value) -> Value {
        let message = self.ask(method, params).await;
        assert!(message["result"].is_object(), "{message}");
        message["result"].clone()
    }

    /// A response that is read message by message, or the only message of a response that is none.
    pub(crate) async fn stream(&self, method: &str, params: Value) -> RawStream {
        RawStream { stream: self.connect(method, params).await, text: String::new() }
    }
}

/// An open event stream.
pub(crate) struct RawStream {
    stream: TcpStream,
    text: String,
}

impl RawStream {
    /// The next message.
    pub(crate) async fn next(&mut self) -> Value {
        loop {
            if let Some((line, rest)) = self.text.split_once('\n') {
                let message = line.trim().strip_prefix("data:").map(str::to_owned);
                self.text = rest.to_owned();
                if let Some(message) = message.filter(|it| !it.trim().is_empty()) {
                    return serde_json::from_str(&message).unwrap();
                }
                continue;
            }
            let mut part = [0; 4_096];
            let count = self.stream.read(&mut part).await.unwrap();
            assert!(count > 0, "the stream has ended: {}", self.text);
            self.text.push_str(&String::from_utf8_lossy(&part[..count]));
        }
    }
}
