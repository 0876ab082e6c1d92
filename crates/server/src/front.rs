//! What a connection is served by: the router, and before it the short way for MCP's messages.
//!
//! A call through MCP is what Toolkeep does most. It goes to its door without the router's layers; the
//! same checks stand before both, in the same order: Host and Origin, then the credential.

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse as _;
use http::{HeaderMap, Method, Request, Response};
use identity::Principal;
use tool::Boxed;
use tower::ServiceExt as _;

use crate::error::ApiError;
use crate::mcp;
use crate::state::Doors;
use crate::{auth, router};

/// All doors, as a server serves them.
#[derive(Debug, Clone)]
pub struct Front {
    /// Where there is a short way.
    mcp: Option<Doors>,
    router: Router,
}

impl Front {
    /// Of these doors.
    pub fn new(doors: &Doors) -> Self {
        Self { mcp: Some(doors.clone()), router: router(doors) }
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
        Self { mcp: None, router }
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

async fn message(doors: Doors, source: Option<String>, request: Request<Body>) -> Response<Body> {
    let answered = match entered(&doors, request.headers(), source.as_deref()).await {
        Ok(principal) => mcp::message(&doors, &principal, source, request).await,
        Err(error) => Err(error),
    };
    answered.unwrap_or_else(ApiError::into_response)
}

/// What stands before every door, in this order.
async fn entered(
    doors: &Doors,
    headers: &HeaderMap,
    source: Option<&str>,
) -> Result<Principal, ApiError> {
    doors.parts.hosts.check(headers)?;
    auth::principal(doors, headers, source).await
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
