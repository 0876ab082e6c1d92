//! The fast path of a connection: serves MCP messages one after the other without hyper.
//!
//! It handles only `POST` requests to MCP endpoints that [`http1::ServerConnection`] can parse. At
//! the first other request it hands the connection to hyper, which keeps it.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{HeaderMap, Uri};
use http1::{NextRequest, PrefixedIo, RequestHead, RequestRules, ServerConnection};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::HEADER_TIMEOUT;
use crate::http_service::{self, FastPathResponse, mcp_source_of};
use server_core::admission::AdmissionCache;
use server_mcp::{EndpointAddress, McpServerState};

/// Largest request body on the fast path, in bytes.
const MAX_BODY_BYTES: usize = 256 << 10;

/// A parsed request head for an MCP endpoint, with its cached checks.
pub(crate) struct McpRequestHead {
    pub(crate) uri: Uri,
    /// The source in the path `/mcp/{source}`, if any.
    pub(crate) source: Option<String>,
    pub(crate) endpoint: EndpointAddress,
    /// The headers without `Content-Length`, which differs between requests.
    pub(crate) headers: HeaderMap,
    /// Results that stay valid for these headers.
    pub(crate) checks: HeadChecks,
}

/// Checks and lookups that passed for one set of headers.
#[derive(Debug, Default)]
pub(crate) struct HeadChecks {
    pub(crate) admission: AdmissionCache,
    /// Whether the media types passed; the result never expires.
    pub(crate) media_types: PassedCheck,
    /// The header values that MCP requires in every request.
    pub(crate) mcp_headers: server_mcp::CachedHeaderValues,
}

/// A check that is not repeated once it has passed.
#[derive(Debug, Default)]
pub(crate) struct PassedCheck(AtomicBool);

impl PassedCheck {
    /// Runs the check unless it has already passed.
    pub(crate) fn ensure_passed<E>(&self, check: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        if !self.0.load(Ordering::Relaxed) {
            check()?;
            self.0.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Accepts a head whose path is an MCP endpoint; returns `None` for other paths.
fn accept_head(head: RequestHead) -> Option<McpRequestHead> {
    let RequestHead { uri, headers, .. } = head;
    let source = mcp_source_of(uri.path())?;
    let source = (!source.is_empty()).then(|| source.to_owned());
    let endpoint = EndpointAddress::from_request(source.clone(), &uri);
    Some(McpRequestHead { uri, source, endpoint, headers, checks: HeadChecks::default() })
}

/// Serves messages until the connection ends; returns the stream at a request for hyper.
pub(super) async fn serve_fast_path<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    state: &McpServerState,
    stop: &CancellationToken,
) -> Option<PrefixedIo<S>> {
    let rules = RequestRules {
        request_prefix: b"POST /mcp",
        accept_head,
        max_body_bytes: state.components.max_body_bytes.min(MAX_BODY_BYTES),
        idle_timeout: HEADER_TIMEOUT,
    };
    let mut connection = ServerConnection::new(stream, rules);
    let mut stopping = pin!(stop.cancelled());
    loop {
        let (head, body) = match connection.next_request(stopping.as_mut()).await {
            NextRequest::Ready(head, body) => (head, body),
            NextRequest::Fallback => return Some(connection.into_io()),
            NextRequest::Closed => return None,
        };
        let handling = Box::pin(http_service::handle_fast_path(state, &head, body));
        let outcome = connection.run_until_disconnect(handling).await?;
        let is_last = stop.is_cancelled();
        let second = state.components.clock.wall_now().0 / 1_000;
        let written = match outcome {
            FastPathResponse::Mcp(reply) => connection.write_response(reply, second, is_last).await,
            FastPathResponse::Http(response) => {
                connection.write_response(response, second, is_last).await
            }
        };
        if let Err(error) = written {
            tracing::debug!(%error, "connection ended");
            return None;
        }
        if is_last {
            connection.shutdown().await;
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method};
    use http1::RequestHead;

    use super::accept_head;

    #[test]
    fn only_endpoints_of_mcp_are_taken() {
        let head = |path: &str| {
            let (method, headers) = (Method::POST, HeaderMap::new());
            accept_head(RequestHead { method, uri: path.parse().unwrap(), headers })
        };
        assert_eq!(head("/mcp").unwrap().source, None);
        assert_eq!(head("/mcp/files?a=b").unwrap().source.as_deref(), Some("files"));
        for other in ["/mcp/a%2fb", "/mcpx", "/mcp/", "/v1/calls"] {
            assert!(head(other).is_none(), "{other}");
        }
    }
}
