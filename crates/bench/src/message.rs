//! One HTTP request and what its answer must look like; and the few MCP messages that are needed.

use std::net::SocketAddr;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

/// The text every echo is asked to give back.
pub(crate) const TEXT: &str = "the quick brown fox jumps over the lazy dog";

/// A request that is sent again and again.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) address: SocketAddr,
    /// Names and values beyond those of MCP itself.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
    pub(crate) expect: Expect,
}

/// What makes an answer a good one, besides its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expect {
    /// It holds this.
    Holds(String),
    /// It has so many bytes.
    Length(usize),
    /// Nothing more.
    Anything,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Bytes,
}

impl Message {
    /// A JSON-RPC request of MCP.
    pub(crate) fn mcp(address: SocketAddr, body: &Value, expect: Expect) -> Self {
        Self { address, headers: Vec::new(), body: Bytes::from(body.to_string()), expect }
    }

    /// A call of an echo tool.
    pub(crate) fn call(address: SocketAddr, tool: &str) -> Self {
        let params = json!({"name": tool, "arguments": {"text": TEXT}});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        Self::mcp(address, &body, Expect::Holds(TEXT.to_owned()))
    }

    /// A request for the list of tools.
    pub(crate) fn list(address: SocketAddr) -> Self {
        Self::page(address, None)
    }

    /// A request for the page of tools at this cursor.
    pub(crate) fn page(address: SocketAddr, cursor: Option<&str>) -> Self {
        let mut body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        if let (Some(cursor), Some(members)) = (cursor, body.as_object_mut()) {
            members.insert("params".to_owned(), json!({"cursor": cursor}));
        }
        Self::mcp(address, &body, Expect::Anything)
    }

    /// The same with more headers.
    pub(crate) fn with(mut self, headers: &[(String, String)]) -> Self {
        self.headers.extend_from_slice(headers);
        self
    }

    fn request(&self) -> Result<Request<Full<Bytes>>, String> {
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

    /// Sends it and reads the whole answer.
    pub(crate) async fn send(&self, to: &mut SendRequest<Full<Bytes>>) -> Result<Answer, String> {
        let lost = |e: hyper::Error| format!("{}: {e}", self.address);
        to.ready().await.map_err(lost)?;
        let (head, body) = to.send_request(self.request()?).await.map_err(lost)?.into_parts();
        let body = body.collect().await.map_err(lost)?.to_bytes();
        Ok(Answer { status: head.status, headers: head.headers, body })
    }

    /// Sends it once, over a connection of its own.
    pub(crate) async fn once(&self) -> Result<Answer, String> {
        self.send(&mut connect(self.address).await?).await
    }

    /// Whether `answer` is what was asked for.
    pub(crate) fn fits(&self, answer: &Answer) -> bool {
        answer.status == StatusCode::OK
            && match &self.expect {
                Expect::Holds(text) => holds(&answer.body, text.as_bytes()),
                Expect::Length(length) => answer.body.len() == *length,
                Expect::Anything => true,
            }
    }
}

/// Opens a connection and keeps it moving.
pub(crate) async fn connect(to: SocketAddr) -> Result<SendRequest<Full<Bytes>>, String> {
    let stream = TcpStream::connect(to).await.map_err(|e| format!("{to}: {e}"))?;
    stream.set_nodelay(true).map_err(|e| format!("{to}: {e}"))?;
    let io = TokioIo::new(stream);
    let (sender, connection) =
        hyper::client::conn::http1::handshake(io).await.map_err(|e| format!("{to}: {e}"))?;
    tokio::spawn(connection);
    Ok(sender)
}

fn holds(body: &[u8], text: &[u8]) -> bool {
    body.windows(text.len().max(1)).any(|window| window == text)
}

impl Answer {
    /// The JSON of the answer, also out of an event stream.
    pub(crate) fn json(&self) -> Result<Value, String> {
        let text = String::from_utf8_lossy(&self.body);
        let events = text.lines().filter_map(|line| line.strip_prefix("data:"));
        let candidates = std::iter::once(text.as_ref()).chain(events);
        let mut values = candidates.filter_map(|text| serde_json::from_str(text.trim()).ok());
        values.next().ok_or_else(|| format!("{}: no JSON: {}", self.status, self.start()))
    }

    /// The first words of the body, for messages.
    pub(crate) fn start(&self) -> String {
        String::from_utf8_lossy(&self.body).chars().take(300).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use bytes::Bytes;
    use http::{HeaderMap, StatusCode};

    use super::{Answer, Expect, Message, TEXT};

    fn answer(status: StatusCode, body: &str) -> Answer {
        Answer { status, headers: HeaderMap::new(), body: Bytes::from(body.to_owned()) }
    }

    #[test]
    fn only_the_asked_answer_fits() {
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let mut message = Message::call(nowhere, "echo");
        assert!(message.fits(&answer(StatusCode::OK, &format!("<{TEXT}>"))));
        assert!(!message.fits(&answer(StatusCode::OK, "{\"error\":{}}")));
        assert!(!message.fits(&answer(StatusCode::UNAUTHORIZED, TEXT)));
        message.expect = Expect::Length(3);
        assert!(message.fits(&answer(StatusCode::OK, "abc")));
        assert!(!message.fits(&answer(StatusCode::OK, "abcd")));
    }

    #[test]
    fn json_is_found_in_both_kinds_of_answers() {
        for body in ["{\"a\":1}", "event: message\ndata: {\"a\":1}\n\n"] {
            assert_eq!(answer(StatusCode::OK, body).json().unwrap()["a"], 1);
        }
        assert!(answer(StatusCode::OK, "<html>").json().is_err());
    }
}
