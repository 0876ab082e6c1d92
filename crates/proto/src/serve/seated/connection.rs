//! One connection: hyper carries it, tonic's services answer, and what hyper does not limit is limited here.

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

use super::Ways;
use super::message_budget::MessageBudget;
use super::request_body::RequestBody;
use crate::serve::{ALIVE, Connection, STREAMS};

/// Time to shake hands.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes that a client of HTTP/2 begins with.
const PREFACE: usize = 24;
/// What may come on a connection, and on one stream, before somebody reads it.
const WINDOW: u32 = 1 << 20;
/// Bytes of one frame.
const FRAME: u32 = 16 << 10;
/// Bytes of the headers of one call.
const HEADERS: u32 = 16 << 10;
/// Bytes of an answer in parts that wait on a stream before its next part is asked for.
const UNSENT: usize = 400 << 10;
/// Streams of a connection that were reset for a fault of the client's before the connection is cut.
const FAULTS: usize = 1024;
/// Streams that the client has reset before they were looked at, and before the connection is cut.
const RESETS: usize = 20;

/// The services that ask for a credential and take one message: what their paths begin with.
const KEYED: [&str; 2] = ["/toolrpc.ToolExecutor/", "/toolkeep.node.v1.Node/"];

/// What the calls of a connection have in common.
pub(super) struct ConnectionState {
    pub(super) ways: Arc<Ways>,
    /// What the server remembers of it.
    pub(super) connection: Option<Connection>,
    /// Of messages that have not arrived in full.
    pub(super) unfinished: MessageBudget,
}

/// Serves one connection until it ends, or `stop` fires and its calls are done.
pub(in crate::serve) async fn serve<T>(
    mut stream: T,
    ways: Arc<Ways>,
    stop: CancellationToken,
) -> Result<(), String>
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    // Hyper waits for a client's first bytes for ever.
    let mut preface = [0; PREFACE];
    let shaking = tokio::time::timeout(PATIENCE, stream.read_exact(&mut preface));
    let shaken = tokio::select! {
        shaken = shaking => shaken.map_err(|_| "it shook hands for too long".to_owned())?,
        () = stop.cancelled() => return Ok(()),
    };
    shaken.map_err(|error| error.to_string())?;
    let (read, write) = tokio::io::split(stream);
    let stream = tokio::io::join(Cursor::new(preface).chain(read), write);
    let (connection, unfinished) = (ways.tools.connected(), MessageBudget::default());
    let state = Arc::new(ConnectionState { ways, connection, unfinished });
    let service = service_fn(move |request| answer(Arc::clone(&state), request));
    let mut connection = pin!(settings().serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    ended.map_err(|error| {
        let silent = error.is_timeout();
        if silent { "the client fell silent".to_owned() } else { error.to_string() }
    })
}

fn settings() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(ALIVE))
        .keep_alive_timeout(ALIVE)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_frame_size(FRAME)
        .max_header_list_size(HEADERS)
        .max_concurrent_streams(STREAMS)
        .max_send_buf_size(UNSENT)
        .max_local_error_reset_streams(Some(FAULTS))
        .max_pending_accept_reset_streams(RESETS);
    builder
}

/// Answers one request. What the server remembers of the connection goes with it.
async fn answer(
    state: Arc<ConnectionState>,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    if let Some(connection) = &state.connection {
        request.extensions_mut().insert(Arc::clone(connection));
    }
    let is_keyed = KEYED.iter().any(|service| request.uri().path().starts_with(service));
    let headers = is_keyed.then(|| request.headers().clone());
    let mut routes = state.ways.routes.clone();
    routes.call(request.map(|body| Body::new(RequestBody::new(body, state, headers)))).await
}
