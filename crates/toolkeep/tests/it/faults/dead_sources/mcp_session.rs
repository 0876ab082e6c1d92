//! A client of `/mcp` in either era that writes its requests by hand, with the stream on which it hears of
//! changed lists.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::server_process::{READY_LIMIT, Server};

/// The eras of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientEra {
    /// 2025-11-25, with a session.
    Handshake,
    /// 2026-07-28.
    Stateless,
}

/// A client with the agent's key.
pub(super) struct McpSession {
    era: ClientEra,
    address: String,
    key: String,
    session: Option<String>,
}

/// Notifications of a client's stream.
pub(super) struct NotificationStream(Lines<BufReader<TcpStream>>);

impl NotificationStream {
    /// The next message.
    pub(super) async fn next(&mut self) -> Value {
        loop {
            let line = timeout(READY_LIMIT, self.0.next_line()).await.expect("a message comes");
            let line = line.unwrap().expect("the stream goes on");
            if let Some(data) = line.strip_prefix("data:").filter(|data| data.contains('{')) {
                return serde_json::from_str(data.trim()).unwrap();
            }
        }
    }
}

impl McpSession {
    pub(super) async fn open(server: &Server, era: ClientEra) -> Self {
        let address = server.url.strip_prefix("http://").unwrap().to_owned();
        let key = std::fs::read_to_string(server.data.join("agent.key")).unwrap();
        let mut client = Self { era, address, key: key.trim().to_owned(), session: None };
        if era == ClientEra::Handshake {
            let hello = json!({
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": { "name": "test", "version": "1" },
            });
            let (head, _) = client.send("initialize", hello).await;
            let mut headers = head.lines().filter_map(|line| line.split_once(": "));
            let id = headers.find(|(name, _)| name.eq_ignore_ascii_case("mcp-session-id"));
            client.session = Some(id.unwrap().1.to_owned());
        }
        client
    }

    #[expect(clippy::disallowed_methods, reason = "a client from outside, not a part of Toolkeep")]
    async fn connect(&self, verb: &str, headers: &str, body: &str) -> TcpStream {
        let Self { address, key, session, .. } = self;
        let session = session
            .as_ref()
            .map(|id| format!("mcp-session-id: {id}\r\nmcp-protocol-version: 2025-11-25\r\n"));
        let accept = if verb == "GET" { "" } else { "application/json, " };
        let head = format!(
            "{verb} /mcp HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\
             content-type: application/json\r\naccept: {accept}text/event-stream\r\n{}{headers}\
             connection: close\r\ncontent-length: {}\r\n\r\n{body}",
            session.unwrap_or_default(),
            body.len()
        );
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }

    async fn post(&self, method: &str, mut params: Value) -> TcpStream {
        let mut headers = String::new();
        if self.era == ClientEra::Stateless {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            headers = format!("mcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\n");
        }
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.connect("POST", &headers, &body.to_string()).await
    }

    /// The head and the body of a response.
    async fn send(&self, method: &str, params: Value) -> (String, String) {
        let mut text = String::new();
        self.post(method, params).await.read_to_string(&mut text).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    /// The result of a request, which must be one.
    pub(super) async fn result(&self, method: &str, params: Value) -> Value {
        let (head, body) = self.send(method, params).await;
        let answer: Value =
            serde_json::from_str(&body).unwrap_or_else(|_| panic!("{method}: {head}\n{body}"));
        assert!(answer["result"].is_object(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// The names of all items of a list.
    pub(super) async fn list(&self, method: &str, member: &str, key: &str) -> Vec<String> {
        let (mut names, mut params) = (Vec::new(), json!({}));
        loop {
            let page = self.result(method, params).await;
            let items = page[member].as_array().unwrap();
            names.extend(items.iter().map(|it| it[key].as_str().unwrap().to_owned()));
            let Some(next) = page["nextCursor"].as_str() else { return names };
            params = json!({ "cursor": next });
        }
    }

    /// Opens the stream of changes; resolves when it is open.
    pub(super) async fn open_stream(&self) -> NotificationStream {
        let wanted = json!({ "notifications": {
            "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
        } });
        let stream = match self.era {
            ClientEra::Handshake => self.connect("GET", "", "").await,
            ClientEra::Stateless => self.post("subscriptions/listen", wanted).await,
        };
        let mut lines = BufReader::new(stream).lines();
        let status = lines.next_line().await.unwrap().unwrap();
        assert!(status.contains(" 200 "), "{status}");
        let mut stream = NotificationStream(lines);
        if self.era == ClientEra::Stateless {
            let first = stream.next().await;
            assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
        }
        stream
    }
}
