//! The fast path of a connection: messages of MCP, one after the other, read and answered without hyper.
//!
//! Only `POST` to an endpoint of MCP is taken, and of that what [`http1::ServerConnection`] reads. With the
//! first other request the connection is left to the reader of all of HTTP, and never comes back.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{HeaderMap, Uri};
use http1::{NextRequest, PrefixedIo, RequestHead, RequestRules, ServerConnection};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::HEADERS;
use crate::front::{self, Said, endpoint};
use server_core::admission::AdmissionCache;
use server_core::error::ApiError;
use server_mcp::{McpDoors, Scope};

/// The longest message that is read here, in bytes.
const MAX_BODY: usize = 256 << 10;

/// What a head says.
pub(crate) struct Head {
    pub(crate) uri: Uri,
    /// The part behind `/mcp/`.
    pub(crate) source: Option<String>,
    pub(crate) scope: Result<Scope, ApiError>,
    /// Without the length, which is not the same each time.
    pub(crate) headers: HeaderMap,
    /// What was found of these headers needs not be looked for again.
    pub(crate) checks: HeadChecks,
}

/// What was found of headers.
#[derive(Debug, Default)]
pub(crate) struct HeadChecks {
    pub(crate) admission: AdmissionCache,
    /// Whether the media types passed, for as long as the server runs.
    pub(crate) media: Fact,
    /// What MCP's door asks of every request.
    pub(crate) said: server_mcp::Said,
}

/// Something that is found once.
#[derive(Debug, Default)]
pub(crate) struct Fact(AtomicBool);

impl Fact {
    /// Looks for it, unless it was found.
    pub(crate) fn or<E>(&self, look: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        if !self.0.load(Ordering::Relaxed) {
            look()?;
            self.0.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// What is kept of a head, where it is for an endpoint of MCP.
fn accept(head: RequestHead) -> Option<Head> {
    let RequestHead { uri, headers, .. } = head;
    let source = endpoint(uri.path())?;
    let source = (!source.is_empty()).then(|| source.to_owned());
    let scope = Scope::read(source.clone(), &uri);
    Some(Head { uri, source, scope, headers, checks: HeadChecks::default() })
}

/// Answers messages until the connection ends, or gives it back with what is not read here.
pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    doors: &McpDoors,
    stop: &CancellationToken,
) -> Option<PrefixedIo<S>> {
    let rules = RequestRules {
        start: b"POST /mcp",
        accept,
        max_body: doors.parts.max_body.min(MAX_BODY),
        idle_timeout: HEADERS,
    };
    let mut connection = ServerConnection::new(stream, rules);
    let mut stopping = pin!(stop.cancelled());
    loop {
        let (head, body) = match connection.next_request(stopping.as_mut()).await {
            NextRequest::Ready(head, body) => (head, body),
            NextRequest::Fallback => return Some(connection.into_io()),
            NextRequest::Closed => return None,
        };
        let work = Box::pin(front::told(doors, &head, body));
        let said = connection.run_until_disconnect(work).await?;
        let is_last = stop.is_cancelled();
        let second = doors.parts.clock.wall().0 / 1_000;
        let written = match said {
            Said::Door(reply) => connection.write_response(reply, second, is_last).await,
            Said::Other(response) => connection.write_response(response, second, is_last).await,
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

    use super::accept;

    #[test]
    fn only_endpoints_of_mcp_are_taken() {
        let head = |path: &str| {
            let (method, headers) = (Method::POST, HeaderMap::new());
            accept(RequestHead { method, uri: path.parse().unwrap(), headers })
        };
        assert_eq!(head("/mcp").unwrap().source, None);
        assert_eq!(head("/mcp/files?a=b").unwrap().source.as_deref(), Some("files"));
        for other in ["/mcp/a%2fb", "/mcpx", "/mcp/", "/v1/calls"] {
            assert!(head(other).is_none(), "{other}");
        }
    }
}
