//! The HTTP service of a connection: a direct path for MCP messages, and the router for everything
//! else.
//!
//! MCP calls are the most frequent requests, so they bypass the router's layers. The same admission
//! applies to both paths ([`server_core::admission`]).

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse as _;
use bytes::Bytes;
use http::{Method, Request, Response};
use tool::BoxFuture;
use tower::ServiceExt as _;

use crate::http_server::McpRequestHead;
use server_core::admission::{AdmissionRequest, admit_request};
use server_core::error::ApiError;
use server_core::poll_times::PollTimes;
use server_core::server_state::ServerState;

use crate::build_router;
use crate::middleware::check_site;
use server_mcp::McpServerState;

/// The service behind every connection: MCP handlers and the router.
#[derive(Debug, Clone)]
pub struct HttpService {
    /// State for MCP messages that bypass the router.
    mcp_state: Option<McpServerState>,
    router: Router,
    /// Whether connections start on the fast path, without hyper.
    has_fast_path: bool,
}

impl HttpService {
    /// Creates the service with the fast path enabled.
    pub fn new(state: &McpServerState) -> Self {
        Self { mcp_state: Some(state.clone()), router: build_router(state), has_fast_path: true }
    }

    /// Adds the web console at `/ui`. Its sessions belong to this service and its clones.
    #[must_use]
    pub fn with_console(self, state: &ServerState) -> Self {
        let console = server_console::console_router(state)
            .layer(axum::middleware::from_fn_with_state(state.clone(), check_site));
        Self { router: self.router.merge(console), ..self }
    }

    /// Disables the fast path, so that hyper parses every request.
    #[must_use]
    pub fn without_fast_path(self) -> Self {
        Self { has_fast_path: false, ..self }
    }

    /// Returns the MCP state if the fast path is enabled.
    pub(crate) fn fast_path_state(&self) -> Option<&McpServerState> {
        self.mcp_state.as_ref().filter(|_| self.has_fast_path)
    }

    /// Returns where times of polls are observed, if there are metrics.
    pub(crate) fn poll_times(&self) -> Option<Arc<PollTimes>> {
        self.mcp_state.as_ref().map(|state| Arc::clone(&state.metrics.poll_times))
    }

    /// Handles one request. Each path is boxed separately: a connection's future is moved often,
    /// and the router's future is large.
    pub(crate) fn handle_request<B>(
        &self,
        request: Request<B>,
    ) -> BoxFuture<'static, Response<Body>>
    where
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<axum::BoxError>,
    {
        if request.method() == Method::POST
            && let Some(doors) = &self.mcp_state
            && let Some(source) = mcp_source_of(request.uri().path())
        {
            let source = (!source.is_empty()).then(|| source.to_owned());
            return Box::pin(handle_mcp_request(doors.clone(), source, request.map(Body::new)));
        }
        let answer = self.router.clone().oneshot(request.map(Body::new));
        // The router's error type is `Infallible`.
        Box::pin(async { answer.await.unwrap_or_default() })
    }
}

impl From<Router> for HttpService {
    fn from(router: Router) -> Self {
        Self { mcp_state: None, router, has_fast_path: false }
    }
}

/// Returns the source of an MCP endpoint path: empty for `/mcp`, `None` for other paths. A path
/// with percent escapes goes through the router.
pub(crate) fn mcp_source_of(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("/mcp")?;
    if rest.is_empty() {
        return Some(rest);
    }
    let source = rest.strip_prefix('/').filter(|source| !source.is_empty())?;
    (!source.contains(['/', '%'])).then_some(source)
}

async fn handle_mcp_request(
    state: McpServerState,
    source: Option<String>,
    request: Request<Body>,
) -> Response<Body> {
    let (headers, uri) = (request.headers(), request.uri());
    let admission = AdmissionRequest { headers, uri, source: source.as_deref() };
    let result =
        match admit_request(&state, admission, None, state.components.clock.wall_now()).await {
            Ok(principal) => server_mcp::handle_post(&state, &principal, source, request).await,
            Err(refused) => Err(refused.into()),
        };
    result.unwrap_or_else(ApiError::into_response)
}

/// A response of the fast path.
#[derive(Debug)]
pub(crate) enum FastPathResponse {
    Mcp(server_mcp::McpResponse),
    Http(Response<Body>),
}

/// Handles one MCP message whose head and body are already parsed.
pub(crate) async fn handle_fast_path(
    state: &McpServerState,
    head: &McpRequestHead,
    body: Bytes,
) -> FastPathResponse {
    let McpRequestHead { uri, source, endpoint, headers, checks } = head;
    let now = state.components.clock.wall_now();
    let admission = AdmissionRequest { headers, uri, source: source.as_deref() };
    let principal = match admit_request(state, admission, Some(&checks.admission), now).await {
        Ok(principal) => principal,
        Err(refused) => return FastPathResponse::Http(ApiError::from(refused).into_response()),
    };
    let check_media_types =
        || server_mcp::reject_headers(headers).map(Box::new).map_or(Ok(()), Err);
    match endpoint.resolve(state, &principal) {
        Ok(scope) => {
            FastPathResponse::Mcp(match checks.media_types.ensure_passed(check_media_types) {
                Ok(()) => {
                    let caller = server_mcp::EndpointCaller {
                        state,
                        principal: &principal,
                        endpoint: scope,
                        received_at: now,
                    };
                    server_mcp::dispatch_message(
                        caller,
                        server_mcp::RequestHeaders::with_cached(headers, &checks.mcp_headers),
                        body,
                    )
                    .await
                }
                Err(reply) => *reply,
            })
        }
        Err(error) => FastPathResponse::Http(error.into_response()),
    }
}

#[cfg(test)]
mod tests {
    use super::mcp_source_of;

    /// Returns the size in bytes of the future that a function returns, without calling it.
    fn future_size<A, F: Future>(_: impl Fn(A) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn what_waits_for_a_call_is_small() {
        let whole = future_size(|(doors, source, request)| {
            super::handle_mcp_request(doors, source, request)
        });
        assert!(whole <= 10 << 10, "{whole} bytes");
        let told = future_size(|(doors, head, body)| super::handle_fast_path(doors, head, body));
        assert!(told <= 10 << 10, "{told} bytes");
    }

    #[test]
    fn only_plain_paths_take_the_short_way() {
        assert_eq!(mcp_source_of("/mcp"), Some(""));
        assert_eq!(mcp_source_of("/mcp/files"), Some("files"));
        for path in ["/mcp/", "/mcpx", "/mcp/a/b", "/mcp/a%2Fb", "/v1/tools", "/", ""] {
            assert_eq!(mcp_source_of(path), None, "{path}");
        }
    }
}
