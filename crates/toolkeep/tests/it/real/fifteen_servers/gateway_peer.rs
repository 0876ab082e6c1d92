//! An MCP client of Toolkeep that keeps responses as they were written.

use bytes::Bytes;
use egress::{EgressClient, EgressOptions, Origin, RequestLimits, TrustStore, UrlTrust};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{Method, Request, StatusCode};
use serde_json::{Value, json};

use super::raw_json::{Raw, members};
use crate::support::server_process::{READY_LIMIT, Server};

/// Revisions at the interface: one of each era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::real) enum Revision {
    Handshake,
    Stateless,
}

impl Revision {
    pub(in crate::real) const ALL: [Self; 2] = [Self::Handshake, Self::Stateless];

    pub(in crate::real) fn word(self) -> &'static str {
        match self {
            Self::Handshake => "2025-11-25",
            Self::Stateless => "2026-07-28",
        }
    }
}

/// A caller with the agent's key, at one endpoint.
pub(in crate::real) struct GatewayPeer {
    egress: EgressClient,
    class: UrlTrust,
    url: String,
    bearer: String,
    pub(in crate::real) revision: Revision,
    session: Option<String>,
    asked: u64,
}

impl GatewayPeer {
    /// Uses `/mcp/{source}`; `/mcp` for the source "", and `/mcp?mode=MODE` for "?mode=MODE".
    pub(in crate::real) async fn open(server: &Server, source: &str, revision: Revision) -> Self {
        let roots = TrustStore {
            uses_system_roots: false,
            falls_back_to_bundled: false,
            extra_roots: Vec::new(),
        };
        let egress =
            EgressClient::new(EgressOptions { trust_store: roots, ..EgressOptions::default() })
                .unwrap();
        let class = UrlTrust::Configured { origin: Origin::parse(&server.url).unwrap() };
        let key = std::fs::read_to_string(server.data.join("agent.key")).unwrap();
        let bearer = format!("Bearer {}", key.trim());
        let slash = if source.is_empty() || source.starts_with('?') { "" } else { "/" };
        let url = format!("{}/mcp{slash}{source}", server.url);
        let mut door = Self { egress, class, url, bearer, revision, session: None, asked: 0 };
        if revision == Revision::Handshake {
            let hello = json!({
                "protocolVersion": revision.word(), "capabilities": {},
                "clientInfo": { "name": "test", "version": "1" },
            });
            door.ask("initialize", hello).await.unwrap();
            let told = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
            assert_eq!(door.send(("notifications/initialized", None), &told).await.0, 202);
        }
        door
    }

    /// Returns the result or the error as received.
    pub(in crate::real) async fn ask(
        &mut self,
        method: &str,
        mut params: Value,
    ) -> Result<Raw, String> {
        self.asked += 1;
        if self.revision == Revision::Stateless {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": self.revision.word(),
                "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let name = params.get("name").and_then(Value::as_str).map(str::to_owned);
        let message =
            json!({ "jsonrpc": "2.0", "id": self.asked, "method": method, "params": params });
        let (status, text) = self.send((method, name.as_deref()), &message).await;
        answer(&text, self.asked).unwrap_or_else(|| Err(format!("{status} {text}")))
    }

    async fn send(&mut self, about: (&str, Option<&str>), message: &Value) -> (StatusCode, String) {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(&self.url)
            .header(AUTHORIZATION, &self.bearer)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream");
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        if self.session.is_some() || self.revision == Revision::Stateless {
            request = request.header("mcp-protocol-version", self.revision.word());
        }
        if self.revision == Revision::Stateless {
            request = request.header("mcp-method", about.0);
            request = about.1.into_iter().fold(request, |it, name| it.header("mcp-name", name));
        }
        let request = request.body(Bytes::from(message.to_string())).unwrap();
        let limits = RequestLimits {
            header_timeout: READY_LIMIT,
            body_idle_timeout: READY_LIMIT,
            ..RequestLimits::default()
        };
        let response = self.egress.send_request(&self.class, request, limits).await.unwrap();
        let session = response.headers().get("mcp-session-id");
        self.session = session.map(|it| it.to_str().unwrap().to_owned()).or(self.session.take());
        let status = response.status();
        let body = response.into_body().collect_bytes().await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }
}

/// The answer to request `id` in a body: alone, or as an event among others.
fn answer(body: &str, id: u64) -> Option<Result<Raw, String>> {
    let events = body.lines().filter_map(|line| line.strip_prefix("data:"));
    std::iter::once(body).chain(events).find_map(|text| {
        let mut found = members(text.trim());
        if found.get("id")?.get() != id.to_string() {
            return None;
        }
        let error = found.remove("error").map(|error| Err(error.get().to_owned()));
        found.remove("result").map(Ok).or(error)
    })
}
