//! A minimal HTTP client with one connection per request, for programs around Toolkeep.

use std::io;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_util::task::TaskTracker;

/// Sends a request to `authority` (`host:port`), independent of its `Host`. The connection ends
/// with the response body.
///
/// # Errors
/// Returns an error if the server is unreachable.
#[expect(clippy::disallowed_methods, reason = "a caller from outside, not a part of Toolkeep")]
pub(crate) async fn send_request(
    authority: &str,
    request: Request<Full<Bytes>>,
) -> io::Result<Response<Incoming>> {
    let stream = TcpStream::connect(authority).await?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    TaskTracker::new().spawn(connection);
    sender.send_request(request).await.map_err(io::Error::other)
}

/// Splits a URL into `host:port` and path.
pub(crate) fn split_url(url: &str) -> (&str, &str) {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    rest.find('/').map_or((rest, "/"), |at| rest.split_at(at))
}
