//! A client of Toolkeep: REST for inspection, MCP 2026-07-28 for calls.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderName, HeaderValue, Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use super::toolkeep::SOURCE;
use crate::wire;

const REVISION: &str = "2026-07-28";

/// A client with a key.
pub(super) struct Door {
    address: String,
    /// The path of the MCP endpoint.
    path: String,
    bearer: String,
    last: AtomicU64,
}

impl Door {
    pub(super) fn new(address: String, key: &str) -> Self {
        Self {
            address,
            path: format!("/mcp/{SOURCE}"),
            bearer: format!("Bearer {key}"),
            last: AtomicU64::default(),
        }
    }

    /// The problems of the source, as shown to its operator.
    pub(super) async fn problems(&self, owner: &str) -> Result<String, String> {
        let owner = Self::new(self.address.clone(), owner);
        Ok(owner.get("/v1/sources").await?.to_string())
    }

    /// A client for a server other than Toolkeep.
    pub(super) fn direct(url: &str) -> Self {
        let (address, path) = wire::split(url);
        Self { path: path.to_owned(), ..Self::new(address.to_owned(), "none") }
    }

    async fn send(&self, request: http::request::Builder, body: String) -> Result<Value, String> {
        let request = request.header(HOST, &self.address).header(AUTHORIZATION, &self.bearer);
        let request = request.body(Full::new(Bytes::from(body))).map_err(text)?;
        let answer = wire::send(&self.address, request).await.map_err(text)?;
        let status = answer.status();
        let body = answer.into_body().collect().await.map_err(text)?.to_bytes();
        let body = String::from_utf8_lossy(&body);
        // In a stream, the last message is the response.
        let last = body.lines().rev().find_map(|line| line.strip_prefix("data:"));
        let message = serde_json::from_str(last.unwrap_or(&body));
        message.map_err(|_| format!("{status}: {body}"))
    }

    fn next(&self) -> u64 {
        self.last.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Sends a REST GET request.
    pub(super) async fn get(&self, path: &str) -> Result<Value, String> {
        self.send(Request::builder().method(Method::GET).uri(path), String::new()).await
    }

    /// Sends an MCP request and returns its result.
    pub(super) async fn ask(&self, method: &str, params: Value) -> Result<Value, String> {
        self.ask_with(method, params, Vec::new()).await
    }

    /// Sends an MCP request with additional headers; invalid ones are skipped.
    pub(super) async fn ask_with(
        &self,
        method: &str,
        mut params: Value,
        more: Vec<(String, String)>,
    ) -> Result<Value, String> {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": REVISION,
            "io.modelcontextprotocol/clientInfo": { "name": "driver", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities":
                { "elicitation": {}, "sampling": {}, "roots": {} },
        });
        let message =
            json!({ "jsonrpc": "2.0", "id": self.next(), "method": method, "params": params });
        let named = ["name", "uri"].iter().find_map(|key| params[*key].as_str());
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(&self.path)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .header("mcp-protocol-version", REVISION)
            .header("mcp-method", method);
        if let Some(named) = named {
            request = request.header("mcp-name", named);
        }
        for (name, value) in more {
            if let (Ok(name), Ok(value)) =
                (HeaderName::try_from(name), HeaderValue::from_bytes(value.as_bytes()))
            {
                request = request.header(name, value);
            }
        }
        let mut answer = self.send(request, message.to_string()).await?;
        match answer.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => Err(format!("{method}: {answer}")),
        }
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
