//! HTTP requests with expected answers, and the MCP messages of the benchmarks.

use std::net::SocketAddr;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

/// The text that echo tools return.
pub(crate) const ECHO_TEXT: &str = "the quick brown fox jumps over the lazy dog";

/// A request that is sent repeatedly, with its expected answer.
#[derive(Debug, Clone)]
pub(crate) struct TimedRequest {
    pub(crate) address: SocketAddr,
    /// Headers beyond those of MCP itself.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
    pub(crate) expect: ExpectedBody,
}

/// The condition that a response body must meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ExpectedBody {
    /// The body contains this text.
    Contains(String),
    /// The body has this length in bytes.
    Length(usize),
    /// Any body is accepted.
    Anything,
}

/// A received HTTP response.
#[derive(Debug)]
pub(crate) struct ReceivedAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Bytes,
}

impl TimedRequest {
    /// Builds a JSON-RPC request of MCP.
    pub(crate) fn from_json_rpc(
        address: SocketAddr,
        body: &Value,
        expected_body: ExpectedBody,
    ) -> Self {
        Self {
            address,
            headers: Vec::new(),
            body: Bytes::from(body.to_string()),
            expect: expected_body,
        }
    }

    /// Builds a call of an echo tool.
    pub(crate) fn tool_call(address: SocketAddr, tool: &str) -> Self {
        let params = json!({"name": tool, "arguments": {"text": ECHO_TEXT}});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        Self::from_json_rpc(address, &body, ExpectedBody::Contains(ECHO_TEXT.to_owned()))
    }

    /// Builds a request for the first page of tools.
    pub(crate) fn tool_list(address: SocketAddr) -> Self {
        Self::tool_page(address, None)
    }

    /// Builds a request for the page of tools at this cursor.
    pub(crate) fn tool_page(address: SocketAddr, cursor: Option<&str>) -> Self {
        let mut body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        if let (Some(cursor), Some(members)) = (cursor, body.as_object_mut()) {
            members.insert("params".to_owned(), json!({"cursor": cursor}));
        }
        Self::from_json_rpc(address, &body, ExpectedBody::Anything)
    }

    /// Adds headers to the request.
    pub(crate) fn with_headers(mut self, headers: &[(String, String)]) -> Self {
        self.headers.extend_from_slice(headers);
        self
    }

    fn build_request(&self) -> Result<Request<Full<Bytes>>, String> {
        let mut request = Request::post("/mcp")
            .header(HOST, self.address.to_string())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .header("mcp-protocol-version", "2025-11-25");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request.body(Full::new(self.body.clone())).map_err(|e| format!("no such request: {e}"))
    }

    /// Sends the request and reads the complete response.
    pub(crate) async fn send_on(
        &self,
        sender: &mut SendRequest<Full<Bytes>>,
    ) -> Result<ReceivedAnswer, String> {
        let lost = |e: hyper::Error| format!("{}: {e}", self.address);
        sender.ready().await.map_err(lost)?;
        let (head, body) =
            sender.send_request(self.build_request()?).await.map_err(lost)?.into_parts();
        let body = body.collect().await.map_err(lost)?.to_bytes();
        Ok(ReceivedAnswer { status: head.status, headers: head.headers, body })
    }

    /// Sends the request once, over a new connection.
    pub(crate) async fn send_once(&self) -> Result<ReceivedAnswer, String> {
        self.send_on(&mut open_connection(self.address).await?).await
    }

    /// Returns whether `answer` meets the expectation.
    pub(crate) fn is_expected(&self, answer: &ReceivedAnswer) -> bool {
        answer.status == StatusCode::OK
            && match &self.expect {
                ExpectedBody::Contains(text) => contains_bytes(&answer.body, text.as_bytes()),
                ExpectedBody::Length(length) => answer.body.len() == *length,
                ExpectedBody::Anything => true,
            }
    }
}

/// Opens a connection and spawns its driver task.
pub(crate) async fn open_connection(
    address: SocketAddr,
) -> Result<SendRequest<Full<Bytes>>, String> {
    let stream = TcpStream::connect(address).await.map_err(|e| format!("{address}: {e}"))?;
    stream.set_nodelay(true).map_err(|e| format!("{address}: {e}"))?;
    let io = TokioIo::new(stream);
    let (sender, connection) =
        hyper::client::conn::http1::handshake(io).await.map_err(|e| format!("{address}: {e}"))?;
    tokio::spawn(connection);
    Ok(sender)
}

fn contains_bytes(body: &[u8], text: &[u8]) -> bool {
    body.windows(text.len().max(1)).any(|window| window == text)
}

impl ReceivedAnswer {
    /// Parses the JSON of the body or of an event stream.
    pub(crate) fn parse_json(&self) -> Result<Value, String> {
        let text = String::from_utf8_lossy(&self.body);
        let events = text.lines().filter_map(|line| line.strip_prefix("data:"));
        let candidates = std::iter::once(text.as_ref()).chain(events);
        let mut values = candidates.filter_map(|text| serde_json::from_str(text.trim()).ok());
        values.next().ok_or_else(|| format!("{}: no JSON: {}", self.status, self.body_start()))
    }

    /// Returns the start of the body for error messages.
    pub(crate) fn body_start(&self) -> String {
        String::from_utf8_lossy(&self.body).chars().take(300).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use bytes::Bytes;
    use http::{HeaderMap, StatusCode};

    use super::{ECHO_TEXT, ExpectedBody, ReceivedAnswer, TimedRequest};

    fn answer(status: StatusCode, body: &str) -> ReceivedAnswer {
        ReceivedAnswer { status, headers: HeaderMap::new(), body: Bytes::from(body.to_owned()) }
    }

    #[test]
    fn only_the_asked_answer_fits() {
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let mut message = TimedRequest::tool_call(nowhere, "echo");
        assert!(message.is_expected(&answer(StatusCode::OK, &format!("<{ECHO_TEXT}>"))));
        assert!(!message.is_expected(&answer(StatusCode::OK, "{\"error\":{}}")));
        assert!(!message.is_expected(&answer(StatusCode::UNAUTHORIZED, ECHO_TEXT)));
        message.expect = ExpectedBody::Length(3);
        assert!(message.is_expected(&answer(StatusCode::OK, "abc")));
        assert!(!message.is_expected(&answer(StatusCode::OK, "abcd")));
    }

    #[test]
    fn json_is_found_in_both_kinds_of_answers() {
        for body in ["{\"a\":1}", "event: message\ndata: {\"a\":1}\n\n"] {
            assert_eq!(answer(StatusCode::OK, body).parse_json().unwrap()["a"], 1);
        }
        assert!(answer(StatusCode::OK, "<html>").parse_json().is_err());
    }
}
