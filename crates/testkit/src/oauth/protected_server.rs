//! The protected MCP server: 2025-11-25, with the tools `read` and `write`; `write` requires its
//! own scope.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderValue, Response};
use http_body_util::Full;
use serde_json::{Value, json};

use super::authorization_server::AuthorizationServer;
use super::recording_server::{
    RecordedRequest, RecordingServer, RequestResponder, bind_loopback, build_response,
    json_response as answer,
};

#[derive(Debug)]
struct ServerInner {
    url: String,
    authorities: Mutex<Vec<AuthorizationServer>>,
    /// Members that override its metadata.
    metadata: Mutex<Value>,
    /// Whether the challenge names the metadata URL.
    announces_metadata: Mutex<bool>,
}

/// A running MCP server; it stops when dropped.
#[derive(Debug, Clone)]
pub struct ProtectedServer {
    inner: Arc<ServerInner>,
    site: Arc<RecordingServer>,
}

impl ProtectedServer {
    /// Starts a server that accepts tokens of `authority`. Requires a tokio runtime.
    pub fn start_server(authority: &AuthorizationServer) -> Self {
        let listener = bind_loopback();
        let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
        let authorities = Mutex::new(vec![authority.clone()]);
        let (metadata, tells) = (Mutex::new(json!({})), Mutex::new(true));
        let inner = Arc::new(ServerInner { url, authorities, metadata, announces_metadata: tells });
        let site = Arc::new(RecordingServer::serve_requests(listener, Arc::clone(&inner)));
        Self { inner, site }
    }

    /// The URL of the server.
    pub fn url(&self) -> &str {
        &self.inner.url
    }

    /// Changes the authorization server that it trusts.
    pub fn set_authority(&self, authority: &AuthorizationServer) {
        *self.inner.authorities.lock().unwrap_or_else(PoisonError::into_inner) =
            vec![authority.clone()];
    }

    /// Overrides members of its metadata.
    pub fn set_metadata(&self, members: Value) {
        *self.inner.metadata.lock().unwrap_or_else(PoisonError::into_inner) = members;
    }

    /// Omits the metadata URL from its challenges.
    pub fn omit_metadata_url(&self) {
        *self.inner.announces_metadata.lock().unwrap_or_else(PoisonError::into_inner) = false;
    }

    /// The requests at paths with this prefix.
    pub fn requests_at(&self, path: &str) -> Vec<RecordedRequest> {
        self.site.requests_at(path)
    }

    /// The accepted tool calls, with their tokens.
    pub fn tool_calls(&self) -> Vec<RecordedRequest> {
        let calls = self.site.requests_at("/mcp").into_iter();
        let of_tool = |seen: &RecordedRequest| {
            let message: Value = serde_json::from_slice(&seen.body).unwrap_or_default();
            message["method"] == "tools/call" && self.inner.check_token(seen, &message).is_ok()
        };
        calls.filter(of_tool).collect()
    }
}

impl RequestResponder for ServerInner {
    async fn answer_request(&self, seen: RecordedRequest) -> Response<Full<Bytes>> {
        match (seen.method.as_str(), seen.uri.path()) {
            (_, "/.well-known/oauth-protected-resource/mcp") => self.resource_metadata(),
            ("POST", "/mcp") => self.answer_mcp(&seen),
            (_, "/mcp") => build_response(405, "text/plain", ""),
            _ => build_response(404, "text/plain", "nothing here"),
        }
    }
}

impl ServerInner {
    fn current_authority(&self) -> AuthorizationServer {
        let all = self.authorities.lock().unwrap_or_else(PoisonError::into_inner);
        all.first().expect("one").clone()
    }

    fn resource_metadata(&self) -> Response<Full<Bytes>> {
        let mut said = json!({"resource": self.url, "authorization_servers": [self.current_authority().url()]});
        let over = self.metadata.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (name, value) in over.as_object().into_iter().flatten() {
            said[name.as_str()] = value.clone();
        }
        answer(200, &said)
    }

    /// Checks the token of a request; returns the status and the challenge on failure.
    fn check_token(
        &self,
        seen: &RecordedRequest,
        message: &Value,
    ) -> Result<(), (u16, &'static str)> {
        let bearer = seen.header_text("authorization").and_then(|it| it.strip_prefix("Bearer "));
        let facts = bearer.and_then(|token| self.current_authority().token_grant(token));
        let facts = facts.filter(|facts| facts.audience == self.url);
        let facts = facts.ok_or((401, r#", scope="read""#))?;
        let writes = message["params"]["name"] == "write";
        if writes && !facts.scopes.contains("write") {
            return Err((403, r#", error="insufficient_scope", scope="write""#));
        }
        Ok(())
    }

    fn answer_mcp(&self, seen: &RecordedRequest) -> Response<Full<Bytes>> {
        let message: Value = serde_json::from_slice(&seen.body).unwrap_or_default();
        if let Err((status, more)) = self.check_token(seen, &message) {
            let base = self.url.strip_suffix("/mcp").unwrap_or_default();
            let at = format!("{base}/.well-known/oauth-protected-resource/mcp");
            let tells = *self.announces_metadata.lock().unwrap_or_else(PoisonError::into_inner);
            let at =
                if tells { format!(r#" resource_metadata="{at}""#) } else { " realm=x".to_owned() };
            let mut response = answer(status, &json!({"error": "no"}));
            let challenge = HeaderValue::try_from(format!("Bearer{at}{more}")).expect("a header");
            response.headers_mut().insert(http::header::WWW_AUTHENTICATE, challenge);
            return response;
        }
        let tool = |name: &str| json!({"name": name, "description": "Does it.", "inputSchema": {"type": "object"}});
        let result = match message["method"].as_str() {
            Some("initialize") => json!({"protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}}, "serverInfo": {"name": "guarded", "version": "1"}}),
            Some("tools/list") => json!({"tools": [tool("read"), tool("write")]}),
            Some("tools/call") => json!({"content": [{"type": "text", "text": "done"}]}),
            _ if message["id"].is_null() => return build_response(202, "text/plain", ""),
            _ => {
                let error = json!({"code": -32601, "message": "no such method"});
                return answer(
                    200,
                    &json!({"jsonrpc": "2.0", "id": message["id"], "error": error}),
                );
            }
        };
        answer(200, &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
    }
}
