//! An MCP client that sends single messages of a revision without handshake.

use bytes::Bytes;
use egress::{EgressClient, EgressOptions, Origin, RequestLimits, TrustStore, UrlTrust};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{Method, Request};
use serde_json::{Value, json};

/// A caller with a key.
pub(crate) struct McpCaller {
    egress: EgressClient,
    class: UrlTrust,
    url: String,
    bearer: String,
}

impl McpCaller {
    pub(crate) fn new(server: &str, key: &str) -> Self {
        let roots = TrustStore {
            uses_system_roots: false,
            falls_back_to_bundled: false,
            extra_roots: Vec::new(),
        };
        let egress =
            EgressClient::new(EgressOptions { trust_store: roots, ..EgressOptions::default() })
                .unwrap();
        let class = UrlTrust::Configured { origin: Origin::parse(server).unwrap() };
        Self { egress, class, url: format!("{server}/mcp"), bearer: format!("Bearer {key}") }
    }

    /// Sends one message; what it answers has `result` or `error`.
    pub(crate) async fn send_request(&self, method: &str, params: &Value) -> Value {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let request = Request::builder()
            .method(Method::POST)
            .uri(&self.url)
            .header(AUTHORIZATION, &self.bearer)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(Bytes::from(message.to_string()));
        let sent =
            self.egress.send_request(&self.class, request.unwrap(), RequestLimits::default());
        let response = sent.await.unwrap();
        let status = response.status();
        let body = response.into_body().collect_bytes().await.unwrap();
        let text = String::from_utf8_lossy(&body);
        let answer: Value =
            serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status} {text}"));
        assert!(answer.get("result").or_else(|| answer.get("error")).is_some(), "{status} {text}");
        answer
    }
}
