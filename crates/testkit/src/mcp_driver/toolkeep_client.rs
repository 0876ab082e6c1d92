//! A client of Toolkeep: REST for inspection, MCP 2026-07-28 for calls.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderName, HeaderValue, Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use super::toolkeep_process::SOURCE_NAME;
use crate::http_client;

const MCP_REVISION: &str = "2026-07-28";

/// A client with a key.
pub(super) struct ToolkeepClient {
    address: String,
    /// The path of the MCP endpoint.
    path: String,
    bearer: String,
    last_id: AtomicU64,
}

impl ToolkeepClient {
    pub(super) fn new(address: String, key: &str) -> Self {
        Self {
            address,
            path: format!("/mcp/{SOURCE_NAME}"),
            bearer: format!("Bearer {key}"),
            last_id: AtomicU64::default(),
        }
    }

    /// The problems of the source, as shown to its operator.
    pub(super) async fn source_problems(&self, owner: &str) -> Result<String, String> {
        let owner = Self::new(self.address.clone(), owner);
        Ok(owner.get_json("/v1/sources").await?.to_string())
    }

    /// A client for a server other than Toolkeep.
    pub(super) fn for_server(url: &str) -> Self {
        let (address, path) = http_client::split_url(url);
        Self { path: path.to_owned(), ..Self::new(address.to_owned(), "none") }
    }

    async fn send_request(
        &self,
        request: http::request::Builder,
        body: String,
    ) -> Result<Value, String> {
        let request = request.header(HOST, &self.address).header(AUTHORIZATION, &self.bearer);
        let request = request.body(Full::new(Bytes::from(body))).map_err(error_text)?;
        let answer = http_client::send_request(&self.address, request).await.map_err(error_text)?;
        let status = answer.status();
        let body = answer.into_body().collect().await.map_err(error_text)?.to_bytes();
        let body = String::from_utf8_lossy(&body);
        // In a stream, the last message is the response.
        let last = body.lines().rev().find_map(|line| line.strip_prefix("data:"));
        let message = serde_json::from_str(last.unwrap_or(&body));
        message.map_err(|_| format!("{status}: {body}"))
    }

    fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Sends a REST GET request.
    pub(super) async fn get_json(&self, path: &str) -> Result<Value, String> {
        self.send_request(Request::builder().method(Method::GET).uri(path), String::new()).await
    }

    /// Sends an MCP request and returns its result.
    pub(super) async fn call_method(&self, method: &str, params: Value) -> Result<Value, String> {
        self.call_method_with(method, params, Vec::new()).await
    }

    /// Sends an MCP request with additional headers; invalid ones are skipped.
    pub(super) async fn call_method_with(
        &self,
        method: &str,
        mut params: Value,
        extra_headers: Vec<(String, String)>,
    ) -> Result<Value, String> {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": MCP_REVISION,
            "io.modelcontextprotocol/clientInfo": { "name": "driver", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities":
                { "elicitation": {}, "sampling": {}, "roots": {} },
        });
        let message =
            json!({ "jsonrpc": "2.0", "id": self.next_id(), "method": method, "params": params });
        let named = ["name", "uri"].iter().find_map(|key| params[*key].as_str());
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(&self.path)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .header("mcp-protocol-version", MCP_REVISION)
            .header("mcp-method", method);
        if let Some(named) = named {
            request = request.header("mcp-name", named);
        }
        for (name, value) in extra_headers {
            if let (Ok(name), Ok(value)) =
                (HeaderName::try_from(name), HeaderValue::from_bytes(value.as_bytes()))
            {
                request = request.header(name, value);
            }
        }
        let mut answer = self.send_request(request, message.to_string()).await?;
        match answer.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => Err(format!("{method}: {answer}")),
        }
    }
}

fn error_text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
