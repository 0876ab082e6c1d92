//! A plain HTTP/1.1 client that opens one connection per request and adds nothing implicitly.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::task::AbortOnDropHandle;

use super::test_server::within_a_minute;

pub(crate) const MODERN: &str = "2026-07-28";

#[derive(Debug, Clone)]
pub(crate) struct Client {
    address: SocketAddr,
    key: Option<String>,
    pub(crate) key_id: String,
    headers: Vec<(String, String)>,
    query: String,
    /// Where MCP messages go.
    endpoint: String,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| {
            panic!("{error} in {}: {}", self.status, String::from_utf8_lossy(&self.body))
        })
    }

    /// The body of a good answer.
    pub(crate) fn expect_ok(self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        self.json()
    }

    /// Status, code and message of an error.
    pub(crate) fn error(&self) -> (u16, String, String) {
        let error = self.json()["error"].clone();
        let field = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
        (self.status.as_u16(), field("code"), field("message"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Messages of a response, which is a single one or a stream.
    pub(crate) fn messages(&self) -> Vec<Value> {
        if self.header("content-type") == Some("application/json") {
            return vec![self.json()];
        }
        let data = self.text().lines().filter_map(|line| line.strip_prefix("data:"));
        data.filter(|data| !data.trim().is_empty())
            .map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }
}

/// An answer that is still coming.
pub(crate) struct MessageStream {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    text: String,
    _connection: AbortOnDropHandle<()>,
}

impl MessageStream {
    /// The next message; null at the end.
    pub(crate) async fn next(&mut self) -> Value {
        loop {
            let event = self.event().await;
            let Some(event) = event else { return Value::Null };
            if let Some(line) = event.lines().find_map(|line| line.strip_prefix("data:")) {
                return serde_json::from_str(line).unwrap();
            }
        }
    }

    /// The next event, comments among them.
    pub(crate) async fn event(&mut self) -> Option<String> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                return Some(event);
            }
            let frame = within_a_minute(self.body.frame()).await?;
            let data = frame.unwrap().into_data().unwrap();
            self.text.push_str(std::str::from_utf8(&data).unwrap());
        }
    }
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let (headers, query, endpoint) = (Vec::new(), String::new(), "/mcp".to_owned());
        Self { address, key: None, key_id: String::new(), headers, query, endpoint }
    }

    pub(crate) fn with_key(mut self, key: &str, id: &str) -> Self {
        (self.key, self.key_id) = (Some(key.to_owned()), id.to_owned());
        self
    }

    /// The same key at another address.
    pub(crate) fn with_address(self, address: SocketAddr) -> Self {
        Self { address, ..self }
    }

    /// With another header in each request.
    pub(crate) fn with_header(&self, name: &str, value: &str) -> Self {
        let mut more = self.clone();
        more.headers.push((name.to_owned(), value.to_owned()));
        more
    }

    /// With this query at each MCP request and each path that has none.
    pub(crate) fn with_query(&self, query: &str) -> Self {
        Self { query: query.to_owned(), ..self.clone() }
    }

    /// With MCP messages to this endpoint.
    pub(crate) fn with_endpoint(&self, endpoint: &str) -> Self {
        Self { endpoint: endpoint.to_owned(), ..self.clone() }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path, Bytes::new()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.send(Method::DELETE, path, Bytes::new()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.send(Method::POST, path, body.to_string().into()).await
    }

    /// A call through REST.
    pub(crate) async fn put(&self, path: &str, body: &Value) -> Reply {
        self.send(Method::PUT, path, Bytes::from(body.to_string())).await
    }

    pub(crate) async fn call_tool(&self, tool: &str, arguments: Value) -> Reply {
        self.post("/v1/calls", &json!({"tool": tool, "arguments": arguments})).await
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: Bytes) -> Reply {
        self.send_with_headers(method, path, body, &[]).await
    }

    /// A message of the older revisions.
    pub(crate) async fn legacy_request(&self, message: &Value) -> Reply {
        let text = message.to_string().into();
        let version = [("mcp-protocol-version", "2025-11-25")];
        self.send_with_headers(Method::POST, &self.endpoint, text, &version).await
    }

    /// This client in a session of its own, with these capabilities.
    pub(crate) async fn open_session(&self, capabilities: Value) -> Self {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"}});
        let reply = self.legacy_request(&message("initialize", params)).await;
        self.with_header("mcp-session-id", reply.header("mcp-session-id").unwrap())
    }

    /// The id of its session.
    pub(crate) fn session_id(&self) -> String {
        let own = self.headers.iter().find(|(name, _)| name == "mcp-session-id");
        own.map(|(_, id)| id.clone()).unwrap()
    }

    /// The GET stream of its session.
    pub(crate) async fn open_session_stream(&self) -> MessageStream {
        let version = [("mcp-protocol-version", "2025-11-25")];
        within_a_minute(self.open_stream(Method::GET, Bytes::new(), &version)).await
    }

    /// A request of 2026-07-28, with all that it must carry.
    pub(crate) async fn modern_request(&self, method: &str, params: Value) -> Reply {
        self.modern_message(&modern_message(method, params)).await
    }

    pub(crate) async fn modern_message(&self, message: &Value) -> Reply {
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (method, params) = (word(&message["method"]), &message["params"]);
        let name = match method.as_str() {
            "resources/read" => word(&params["uri"]),
            "tools/call" | "prompts/get" => word(&params["name"]),
            "tasks/get" | "tasks/update" | "tasks/cancel" => word(&params["taskId"]),
            _ => String::new(),
        };
        let mut headers = vec![("mcp-protocol-version", MODERN), ("mcp-method", method.as_str())];
        if !name.is_empty() {
            headers.push(("mcp-name", &name));
        }
        self.send_with_headers(Method::POST, &self.endpoint, message.to_string().into(), &headers)
            .await
    }

    /// Sends a request whose response is read message by message.
    pub(crate) async fn modern_stream(&self, method: &str, params: Value) -> MessageStream {
        self.modern_stream_of(method, params, json!({})).await
    }

    /// The same for a client that declares these capabilities.
    pub(crate) async fn modern_stream_of(
        &self,
        method: &str,
        params: Value,
        capabilities: Value,
    ) -> MessageStream {
        let mut message = modern_message(method, params);
        message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
        let text = message.to_string().into();
        let headers = [("mcp-protocol-version", MODERN), ("mcp-method", method)];
        within_a_minute(self.open_stream(Method::POST, text, &headers)).await
    }

    /// A message of the older revisions whose answer is read message by message.
    pub(crate) async fn legacy_stream(&self, message: &Value) -> MessageStream {
        let text = message.to_string().into();
        let version = [("mcp-protocol-version", "2025-11-25")];
        within_a_minute(self.open_stream(Method::POST, text, &version)).await
    }

    pub(crate) async fn open_stream(
        &self,
        method: Method,
        body: Bytes,
        more: &[(&str, &str)],
    ) -> MessageStream {
        let (response, connection) = self.open_request(method, &self.endpoint, body, more).await;
        let (parts, body) = response.into_parts();
        let (status, headers) = (parts.status, parts.headers);
        MessageStream { status, headers, body, text: String::new(), _connection: connection }
    }

    async fn send_with_headers(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        more: &[(&str, &str)],
    ) -> Reply {
        let (response, _connection) =
            within_a_minute(self.open_request(method, path, body, more)).await;
        let (parts, body) = response.into_parts();
        let body = within_a_minute(body.collect()).await.unwrap().to_bytes();
        Reply { status: parts.status, headers: parts.headers, body }
    }

    /// Sends a request and reads the head of its answer. Dropping this future or what it gives closes
    /// the connection.
    async fn open_request(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        more: &[(&str, &str)],
    ) -> (Response<Incoming>, AbortOnDropHandle<()>) {
        let stream = TokioIo::new(connect(self.address).await);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
        let tasks = tokio_util::task::TaskTracker::new();
        let connection = tasks.spawn(async move { drop(connection.await) });
        let connection = AbortOnDropHandle::new(connection);
        let given = |name: &str| {
            self.headers.iter().any(|(n, _)| n == name) || more.iter().any(|(n, _)| *n == name)
        };
        let path =
            if path.contains('?') { path.to_owned() } else { format!("{path}{}", self.query) };
        let mut request = Request::builder().method(method).uri(path);
        if !given("host") {
            request = request.header(HOST, self.address.to_string());
        }
        if !body.is_empty() && !given("content-type") {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if !given("accept") {
            request = request.header(ACCEPT, "application/json, text/event-stream");
        }
        if let Some(key) = self.key.as_ref().filter(|_| !given("authorization")) {
            request = request.header(AUTHORIZATION, format!("Bearer {key}"));
        }
        let own = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in own.chain(more.iter().copied()) {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(body)).unwrap();
        (sender.send_request(request).await.unwrap(), connection)
    }

    /// Where its MCP messages go.
    pub(crate) fn mcp_address(&self) -> (SocketAddr, String) {
        (self.address, self.endpoint.clone())
    }

    /// This client's key, as its header has it.
    pub(crate) fn bearer(&self) -> String {
        format!("Bearer {}", self.key.as_deref().unwrap())
    }

    /// The header as a line.
    pub(crate) fn authorization_line(&self) -> String {
        format!("Authorization: {}\r\n", self.bearer())
    }
}

/// A message that asks for `method` in the words of the older revisions.
pub(crate) fn message(method: &str, params: Value) -> Value {
    let mut message = json!({"jsonrpc": "2.0", "id": 1, "method": method});
    message["params"] = params;
    message
}

/// The same with the `_meta` that 2026-07-28 requires in each request.
pub(crate) fn modern_message(method: &str, mut params: Value) -> Value {
    let meta = &mut params["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
    meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "test", "version": "1"});
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
    message(method, params)
}

pub(crate) async fn connect(address: SocketAddr) -> TcpStream {
    try_connect(address).await.unwrap()
}

#[expect(clippy::disallowed_methods, reason = "the other end of the wire, in a test")]
pub(crate) async fn try_connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    TcpStream::connect(address).await
}

/// Sends bytes as they are and reads the status line of what comes back; empty where nothing does.
pub(crate) async fn send_raw(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = connect(address).await;
    stream.write_all(bytes).await.unwrap();
    let (mut line, mut byte) = (Vec::new(), [0]);
    while within_a_minute(stream.read(&mut byte)).await.unwrap_or(0) > 0 && byte != *b"\r" {
        line.extend_from_slice(&byte);
    }
    String::from_utf8(line).unwrap()
}
