//! A caller at the MCP door that sends bare messages, of a revision that needs no handshake here.

use bytes::Bytes;
use egress::{Class, Egress, EgressSettings, HttpLimits, Origin, Roots};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{Method, Request};
use serde_json::{Value, json};

/// A caller with a key.
pub(crate) struct Mcp {
    egress: Egress,
    class: Class,
    url: String,
    bearer: String,
}

impl Mcp {
    pub(crate) fn new(server: &str, key: &str) -> Self {
        let roots = Roots { native: false, bundled: false, extra: Vec::new() };
        let egress = Egress::new(EgressSettings { roots, ..EgressSettings::default() }).unwrap();
        let class = Class::Operator { origin: Origin::parse(server).unwrap() };
        Self { egress, class, url: format!("{server}/mcp"), bearer: format!("Bearer {key}") }
    }

    /// Sends one message; what it answers has `result` or `error`.
    pub(crate) async fn ask(&self, method: &str, params: &Value) -> Value {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let request = Request::builder()
            .method(Method::POST)
            .uri(&self.url)
            .header(AUTHORIZATION, &self.bearer)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(Bytes::from(message.to_string()));
        let sent = self.egress.send(&self.class, request.unwrap(), HttpLimits::default());
        let response = sent.await.unwrap();
        let status = response.status();
        let body = response.into_body().bytes().await.unwrap();
        let text = String::from_utf8_lossy(&body);
        let answer: Value =
            serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status} {text}"));
        assert!(answer.get("result").or_else(|| answer.get("error")).is_some(), "{status} {text}");
        answer
    }
}
