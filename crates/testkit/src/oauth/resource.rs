//! The protected MCP server: 2025-11-25, with the tools `read` and `write`; `write` requires its
//! own scope.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderValue, Response};
use http_body_util::Full;
use serde_json::{Value, json};

use super::authority::Authority;
use super::site::{Answers, Seen, Site, free, json as answer, reply};

#[derive(Debug)]
struct Inner {
    url: String,
    authorities: Mutex<Vec<Authority>>,
    /// Members that override its metadata.
    metadata: Mutex<Value>,
    /// Whether the challenge names the metadata URL.
    tells: Mutex<bool>,
}

/// A running MCP server; it stops when dropped.
#[derive(Debug, Clone)]
pub struct Resource {
    inner: Arc<Inner>,
    site: Arc<Site>,
}

impl Resource {
    /// Starts a server that accepts tokens of `authority`. Requires a tokio runtime.
    pub fn start(authority: &Authority) -> Self {
        let listener = free();
        let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
        let authorities = Mutex::new(vec![authority.clone()]);
        let (metadata, tells) = (Mutex::new(json!({})), Mutex::new(true));
        let inner = Arc::new(Inner { url, authorities, metadata, tells });
        let site = Arc::new(Site::serve(listener, Arc::clone(&inner)));
        Self { inner, site }
    }

    /// The URL of the server.
    pub fn url(&self) -> &str {
        &self.inner.url
    }

    /// Changes the authorization server that it trusts.
    pub fn move_to(&self, authority: &Authority) {
        *self.inner.authorities.lock().unwrap_or_else(PoisonError::into_inner) =
            vec![authority.clone()];
    }

    /// Overrides members of its metadata.
    pub fn says(&self, members: Value) {
        *self.inner.metadata.lock().unwrap_or_else(PoisonError::into_inner) = members;
    }

    /// Omits the metadata URL from its challenges.
    pub fn hush(&self) {
        *self.inner.tells.lock().unwrap_or_else(PoisonError::into_inner) = false;
    }

    /// The requests at paths with this prefix.
    pub fn seen(&self, path: &str) -> Vec<Seen> {
        self.site.seen(path)
    }

    /// The accepted tool calls, with their tokens.
    pub fn calls(&self) -> Vec<Seen> {
        let calls = self.site.seen("/mcp").into_iter();
        let of_tool = |seen: &Seen| {
            let message: Value = serde_json::from_slice(&seen.body).unwrap_or_default();
            message["method"] == "tools/call" && self.inner.takes(seen, &message).is_ok()
        };
        calls.filter(of_tool).collect()
    }
}

impl Answers for Inner {
    async fn answer(&self, seen: Seen) -> Response<Full<Bytes>> {
        match (seen.method.as_str(), seen.uri.path()) {
            (_, "/.well-known/oauth-protected-resource/mcp") => self.metadata(),
            ("POST", "/mcp") => self.mcp(&seen),
            (_, "/mcp") => reply(405, "text/plain", ""),
            _ => reply(404, "text/plain", "nothing here"),
        }
    }
}

impl Inner {
    fn authority(&self) -> Authority {
        let all = self.authorities.lock().unwrap_or_else(PoisonError::into_inner);
        all.first().expect("one").clone()
    }

    fn metadata(&self) -> Response<Full<Bytes>> {
        let mut said =
            json!({"resource": self.url, "authorization_servers": [self.authority().url()]});
        let over = self.metadata.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (name, value) in over.as_object().into_iter().flatten() {
            said[name.as_str()] = value.clone();
        }
        answer(200, &said)
    }

    /// Checks the token of a request; returns the status and the challenge on failure.
    fn takes(&self, seen: &Seen, message: &Value) -> Result<(), (u16, &'static str)> {
        let bearer = seen.header("authorization").and_then(|it| it.strip_prefix("Bearer "));
        let facts = bearer.and_then(|token| self.authority().facts(token));
        let facts = facts.filter(|facts| facts.audience == self.url);
        let facts = facts.ok_or((401, r#", scope="read""#))?;
        let writes = message["params"]["name"] == "write";
        if writes && !facts.scopes.contains("write") {
            return Err((403, r#", error="insufficient_scope", scope="write""#));
        }
        Ok(())
    }

    fn mcp(&self, seen: &Seen) -> Response<Full<Bytes>> {
        let message: Value = serde_json::from_slice(&seen.body).unwrap_or_default();
        if let Err((status, more)) = self.takes(seen, &message) {
            let base = self.url.strip_suffix("/mcp").unwrap_or_default();
            let at = format!("{base}/.well-known/oauth-protected-resource/mcp");
            let tells = *self.tells.lock().unwrap_or_else(PoisonError::into_inner);
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
            _ if message["id"].is_null() => return reply(202, "text/plain", ""),
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
