//! Serves one connection with hyper and tonic's services, and adds the limits that hyper lacks.

use std::convert::Infallible;
use std::io::Cursor;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tower::Service as _;

use super::RequestHandlers;
use super::message_budget::MessageBudget;
use super::request_body::RequestBody;
use crate::server::{ConnectionExtension, KEEPALIVE_INTERVAL, MAX_CONCURRENT_STREAMS};

/// Timeout of the HTTP/2 connection preface.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Size of the HTTP/2 connection preface, in bytes.
const PREFACE_BYTES: usize = 24;
/// Flow-control window of a connection and of a stream, in bytes.
const INITIAL_WINDOW: u32 = 1 << 20;
/// Maximum size of a frame, in bytes.
const MAX_FRAME_BYTES: u32 = 16 << 10;
/// Maximum size of request headers, in bytes.
const MAX_HEADER_BYTES: u32 = 16 << 10;
/// Maximum number of buffered response bytes of a stream.
const MAX_SEND_BUFFER: usize = 400 << 10;
/// Maximum number of streams reset because of client errors before the connection is closed.
const MAX_LOCAL_RESETS: usize = 1024;
/// Maximum number of streams that the client resets before they are accepted; more close the
/// connection.
const MAX_PENDING_RESETS: usize = 20;

/// Path prefixes of the services that require a credential and take one message.
const AUTHENTICATED_PATHS: [&str; 2] = ["/toolrpc.ToolExecutor/", "/toolkeep.node.v1.Node/"];

/// The state that the calls of a connection share.
pub(super) struct ConnectionState {
    pub(super) handlers: Arc<RequestHandlers>,
    /// State that the tool service attached to the connection.
    pub(super) extension: Option<ConnectionExtension>,
    /// The budget of incomplete messages.
    pub(super) message_budget: MessageBudget,
}

/// Serves one connection until it ends, or until `stop` fires and its calls are done.
pub(in crate::server) async fn serve_stream<T>(
    mut stream: T,
    handlers: Arc<RequestHandlers>,
    stop: CancellationToken,
) -> Result<(), String>
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    // Hyper has no timeout for the preface.
    let mut preface = [0; PREFACE_BYTES];
    let shaking = tokio::time::timeout(HANDSHAKE_TIMEOUT, stream.read_exact(&mut preface));
    let shaken = tokio::select! {
        shaken = shaking => shaken.map_err(|_| "the HTTP/2 preface timed out".to_owned())?,
        () = stop.cancelled() => return Ok(()),
    };
    shaken.map_err(|error| error.to_string())?;
    let (read, write) = tokio::io::split(stream);
    let stream = tokio::io::join(Cursor::new(preface).chain(read), write);
    let (connection, unfinished) =
        (handlers.tool_service.open_connection(), MessageBudget::default());
    let state =
        Arc::new(ConnectionState { handlers, extension: connection, message_budget: unfinished });
    let service = service_fn(move |request| handle_request(Arc::clone(&state), request));
    let mut connection = pin!(connection_builder().serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    ended.map_err(|error| {
        let is_timeout = error.is_timeout();
        if is_timeout { "keepalive timed out".to_owned() } else { error.to_string() }
    })
}

fn connection_builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(KEEPALIVE_INTERVAL))
        .keep_alive_timeout(KEEPALIVE_INTERVAL)
        .initial_stream_window_size(INITIAL_WINDOW)
        .initial_connection_window_size(INITIAL_WINDOW)
        .max_frame_size(MAX_FRAME_BYTES)
        .max_header_list_size(MAX_HEADER_BYTES)
        .max_concurrent_streams(MAX_CONCURRENT_STREAMS)
        .max_send_buf_size(MAX_SEND_BUFFER)
        .max_local_error_reset_streams(Some(MAX_LOCAL_RESETS))
        .max_pending_accept_reset_streams(MAX_PENDING_RESETS);
    builder
}

/// Handles one request. Adds the connection state to its extensions.
async fn handle_request(
    state: Arc<ConnectionState>,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    if let Some(connection) = &state.extension {
        request.extensions_mut().insert(Arc::clone(connection));
    }
    let is_authenticated =
        AUTHENTICATED_PATHS.iter().any(|service| request.uri().path().starts_with(service));
    let headers = is_authenticated.then(|| request.headers().clone());
    let mut routes = state.handlers.routes.clone();
    routes.call(request.map(|body| Body::new(RequestBody::new(body, state, headers)))).await
}
