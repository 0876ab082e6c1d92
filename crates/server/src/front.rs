//! What a connection is served by: the router, and before it the short way for MCP's messages.
//!
//! A call through MCP is what Toolkeep does most. It goes to its door without the router's layers; the
//! same admission stands before both ([`server_core::admission`]).

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse as _;
use bytes::Bytes;
use http::{Method, Request, Response};
use tool::Boxed;
use tower::ServiceExt as _;

use crate::listen::Head;
use server_core::admission::{AdmissionRequest, admit};
use server_core::error::ApiError;

use crate::router;
use server_mcp::McpDoors;

/// All doors, as a server serves them.
#[derive(Debug, Clone)]
pub struct Front {
    /// Where MCP's messages go past the router.
    mcp: Option<McpDoors>,
    router: Router,
    /// Whether connections begin without hyper.
    has_fast_path: bool,
}

impl Front {
    /// Of these doors.
    pub fn new(doors: &McpDoors) -> Self {
        Self { mcp: Some(doors.clone()), router: router(doors), has_fast_path: true }
    }

    /// The same, with hyper as the only reader of HTTP.
    #[must_use]
    pub fn without_fast_path(self) -> Self {
        Self { has_fast_path: false, ..self }
    }

    /// Where messages of MCP are answered without hyper.
    pub(crate) fn fast_path(&self) -> Option<&McpDoors> {
        self.mcp.as_ref().filter(|_| self.has_fast_path)
    }

    /// Answers one request. Both ways are boxed apart: what a connection carries about is moved often,
    /// and the router's way is large.
    pub(crate) fn answer<B>(&self, request: Request<B>) -> Boxed<'static, Response<Body>>
    where
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<axum::BoxError>,
    {
        if request.method() == Method::POST
            && let Some(doors) = &self.mcp
            && let Some(source) = endpoint(request.uri().path())
        {
            let source = (!source.is_empty()).then(|| source.to_owned());
            return Box::pin(message(doors.clone(), source, request.map(Body::new)));
        }
        let answer = self.router.clone().oneshot(request.map(Body::new));
        // The router's error is one that cannot be made.
        Box::pin(async { answer.await.unwrap_or_default() })
    }
}

impl From<Router> for Front {
    fn from(router: Router) -> Self {
        Self { mcp: None, router, has_fast_path: false }
    }
}

/// The source of an endpoint of MCP's, empty for that of all; nothing for any other path. What is
/// written in escapes takes the long way.
pub(crate) fn endpoint(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("/mcp")?;
    if rest.is_empty() {
        return Some(rest);
    }
    let source = rest.strip_prefix('/').filter(|source| !source.is_empty())?;
    (!source.contains(['/', '%'])).then_some(source)
}

async fn message(
    doors: McpDoors,
    source: Option<String>,
    request: Request<Body>,
) -> Response<Body> {
    let (headers, uri) = (request.headers(), request.uri());
    let asked = AdmissionRequest { headers, uri, source: source.as_deref() };
    let answered = match admit(&doors, asked, None, doors.parts.clock.wall()).await {
        Ok(principal) => server_mcp::message(&doors, &principal, source, request).await,
        Err(refused) => Err(refused.into()),
    };
    answered.unwrap_or_else(ApiError::into_response)
}

/// The answer to a message of the short way.
#[derive(Debug)]
pub(crate) enum Said {
    Door(server_mcp::Reply),
    Other(Response<Body>),
}

/// Answers one message whose head and body were read.
pub(crate) async fn told(doors: &McpDoors, head: &Head, body: Bytes) -> Said {
    let Head { uri, source, scope, headers, checks } = head;
    let now = doors.parts.clock.wall();
    let asked = AdmissionRequest { headers, uri, source: source.as_deref() };
    let principal = match admit(doors, asked, Some(&checks.admission), now).await {
        Ok(principal) => principal,
        Err(refused) => return Said::Other(ApiError::from(refused).into_response()),
    };
    let checked = || server_mcp::refuses(headers).map(Box::new).map_or(Ok(()), Err);
    match scope {
        Ok(scope) => Said::Door(match checks.media.or(checked) {
            Ok(()) => {
                let who = server_mcp::Who { doors, principal: &principal, scope, now };
                server_mcp::taken(who, server_mcp::Heads::known(headers, &checks.said), body).await
            }
            Err(reply) => *reply,
        }),
        Err(error) => Said::Other(error.clone().into_response()),
    }
}

#[cfg(test)]
mod tests {
    use super::endpoint;

    /// The bytes of the future that `make` makes; none is made.
    fn size<A, F: Future>(_: impl Fn(A) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn what_waits_for_a_call_is_small() {
        let whole = size(|(doors, source, request)| super::message(doors, source, request));
        assert!(whole <= 10 << 10, "{whole} bytes");
        let told = size(|(doors, head, body)| super::told(doors, head, body));
        assert!(told <= 10 << 10, "{told} bytes");
    }

    #[test]
    fn only_plain_paths_take_the_short_way() {
        assert_eq!(endpoint("/mcp"), Some(""));
        assert_eq!(endpoint("/mcp/files"), Some("files"));
        for path in ["/mcp/", "/mcpx", "/mcp/a/b", "/mcp/a%2Fb", "/v1/tools", "/", ""] {
            assert_eq!(endpoint(path), None, "{path}");
        }
    }
}
