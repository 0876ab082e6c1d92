//! The fast path: unary calls straight over HTTP/2.
//!
//! Each runtime has its own connection, so that no call is woken from another thread. Connections
//! are kept alive with pings; a connection that does not respond is dropped with its calls.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use h2::client::SendRequest;
use h2::{Ping, PingPong, RecvStream};
use http::header::{CONTENT_TYPE, TE};
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Uri, Version};
use prost::Message;
use tokio::runtime::{Handle, Id};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use tonic::{Code, ConnectError, Status, TimeoutExpired};

use super::{ConnectFuture, IoStream, KEEPALIVE_INTERVAL};
use crate::TIMEOUT_HEADER;
use crate::framing::{FRAME_HEADER_BYTES, MessageBuffer, parse_frame_length};

const STATUS_HEADER: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE_HEADER: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/grpc");
const TE_TRAILERS: HeaderValue = HeaderValue::from_static("trailers");

/// Maximum size of response headers and of trailers, in bytes.
const MAX_HEADER_BYTES: u32 = 16 << 10;

/// The URI of `CallFunction` of the cluster tools. Its host is a placeholder for `:authority`.
const CALL_FUNCTION_URI: &str = "http://node/toolrpc.ToolExecutor/CallFunction";

/// A function that opens a connection.
pub(super) type ConnectFn = Arc<dyn Fn() -> ConnectFuture + Send + Sync>;

/// The connections to one server, one per runtime.
pub(super) struct RuntimeConnections {
    /// The URI of calls, parsed once.
    call_uri: Uri,
    connect: ConnectFn,
    /// One entry per calling runtime. There are few, so they are searched linearly.
    connections: Mutex<Vec<(Id, Arc<RuntimeConnection>)>>,
    tasks: TaskTracker,
}

impl std::fmt::Debug for RuntimeConnections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RuntimeConnections")
    }
}

/// The connection of one runtime.
struct RuntimeConnection {
    sender: Mutex<Option<SendRequest<Bytes>>>,
    /// One caller connects, and the others wait for it.
    connect_permit: Semaphore,
}

impl Default for RuntimeConnection {
    fn default() -> Self {
        Self { sender: Mutex::default(), connect_permit: Semaphore::new(1) }
    }
}

impl RuntimeConnections {
    pub(super) fn new(connect: ConnectFn) -> Self {
        let (call_uri, connections) = (Uri::from_static(CALL_FUNCTION_URI), Mutex::default());
        Self { call_uri, connect, connections, tasks: TaskTracker::new() }
    }

    /// Makes a unary call. If nothing was sent, the error's source chain contains a
    /// [`ConnectError`].
    ///
    /// # Errors
    /// The status of the server, or a transport error.
    pub(super) async fn call_unary<A: Message, B: Message + Default>(
        &self,
        message: &A,
        timeout: Duration,
    ) -> Result<B, Status> {
        match tokio::time::timeout(timeout, self.send_call(message, timeout)).await {
            Ok(result) => result,
            Err(_) => Err(Status::from_error(Box::new(TimeoutExpired(())))),
        }
    }

    async fn send_call<A: Message, B: Message + Default>(
        &self,
        message: &A,
        timeout: Duration,
    ) -> Result<B, Status> {
        let bytes = encode_message(message)?;
        let request = build_request(self.call_uri.clone(), timeout)?;
        let mut connection = self.ready_connection().await?;
        let (response, mut body) =
            connection.send_request(request, false).map_err(not_sent_error)?;
        body.send_data(bytes, true).map_err(maybe_sent_error)?;
        let (head, body) = response.await.map_err(maybe_sent_error)?.into_parts();
        if head.status != StatusCode::OK {
            return Err(Status::unavailable(format!("it returned {}", head.status)));
        }
        if let Some(status) = parse_status(&head.headers) {
            status?;
        }
        read_message(body).await
    }

    /// Returns the connection of this runtime and reconnects if it failed.
    async fn ready_connection(&self) -> Result<SendRequest<Bytes>, Status> {
        let runtime_connection = {
            let here = Handle::current().id();
            let mut all = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, open)) = all.iter().find(|(id, _)| *id == here) {
                Arc::clone(open)
            } else {
                let open = Arc::default();
                all.push((here, Arc::clone(&open)));
                open
            }
        };
        if let Some(ready) = runtime_connection.ready_sender().await {
            return Ok(ready);
        }
        let _permit = runtime_connection
            .connect_permit
            .acquire()
            .await
            .map_err(|error| connect_error(Box::new(error)))?;
        if let Some(ready) = runtime_connection.ready_sender().await {
            return Ok(ready);
        }
        let stream = (self.connect)().await.map_err(|error| connect_error(Box::new(error)))?;
        let (sender, connection) = h2::client::Builder::new()
            .initial_window_size(1 << 20)
            .initial_connection_window_size(4 << 20)
            .max_header_list_size(MAX_HEADER_BYTES)
            .enable_push(false)
            .handshake::<_, Bytes>(stream)
            .await
            .map_err(|error| connect_error(Box::new(error)))?;
        // The task ends with the connection or with its runtime.
        drop(self.tasks.spawn(drive_connection(connection)));
        let ready = sender.ready().await.map_err(|error| connect_error(Box::new(error)))?;
        *runtime_connection.sender.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(ready.clone());
        Ok(ready)
    }
}

impl RuntimeConnection {
    /// Waits until the server accepts another stream. Returns `None` if the connection failed.
    async fn ready_sender(&self) -> Option<SendRequest<Bytes>> {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).clone();
        sender?.ready().await.ok()
    }
}

/// Drives a connection until it ends or a ping times out.
async fn drive_connection(mut connection: h2::client::Connection<Box<dyn IoStream>, Bytes>) {
    let pings = connection.ping_pong();
    let ping_timeout = async {
        match pings {
            Some(pings) => ping_until_timeout(pings).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        ended = connection => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a gRPC connection ended");
            }
        }
        () = ping_timeout => tracing::debug!("a gRPC connection did not respond to a ping in time"),
    }
}

/// Sends pings until one times out.
async fn ping_until_timeout(mut pings: PingPong) {
    loop {
        tokio::time::sleep(KEEPALIVE_INTERVAL).await;
        let pong = tokio::time::timeout(KEEPALIVE_INTERVAL, pings.ping(Ping::opaque())).await;
        if !pong.is_ok_and(|answer| answer.is_ok()) {
            return;
        }
    }
}

fn encode_message<A: Message>(message: &A) -> Result<Bytes, Status> {
    let mut bytes = BytesMut::with_capacity(FRAME_HEADER_BYTES + message.encoded_len());
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(message.encoded_len()).unwrap_or(u32::MAX));
    parse_frame_length(&bytes)?;
    message.encode(&mut bytes).map_err(|error| Status::internal(error.to_string()))?;
    Ok(bytes.freeze())
}

fn build_request(uri: Uri, time_limit: Duration) -> Result<Request<()>, Status> {
    let timeout = HeaderValue::from_maybe_shared(Bytes::from(format_timeout(time_limit)));
    let timeout = timeout.map_err(|error| Status::internal(error.to_string()))?;
    let mut request = Request::new(());
    *request.version_mut() = Version::HTTP_2;
    *request.method_mut() = http::Method::POST;
    *request.uri_mut() = uri;
    let headers = request.headers_mut();
    headers.reserve(3);
    headers.extend([
        (CONTENT_TYPE, GRPC_CONTENT_TYPE),
        (TE, TE_TRAILERS),
        (TIMEOUT_HEADER, timeout),
    ]);
    Ok(request)
}

/// Formats a `grpc-timeout`: up to eight digits and a unit. A second or more is rounded up to whole
/// milliseconds, so that calls with equal timeouts send the same value, which HTTP/2 encodes in one
/// byte.
fn format_timeout(time_limit: Duration) -> String {
    if time_limit < Duration::from_secs(1) {
        return format!("{}u", time_limit.as_micros());
    }
    let millis = time_limit.as_nanos().div_ceil(1_000_000);
    if millis < 100_000_000 {
        return format!("{millis}m");
    }
    format!("{}S", time_limit.as_secs().min(99_999_999))
}

/// Parses the gRPC status of trailers, or of headers in their place; `None` if there is none.
fn parse_status(headers: &HeaderMap) -> Option<Result<(), Status>> {
    let code = Code::from_bytes(headers.get(STATUS_HEADER)?.as_bytes());
    if code == Code::Ok {
        return Some(Ok(()));
    }
    let text = headers.get(MESSAGE_HEADER).map(HeaderValue::as_bytes).unwrap_or_default();
    Some(Err(Status::new(code, percent_decode(text))))
}

/// Decodes the percent encoding of a gRPC status message.
fn percent_decode(text: &[u8]) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text);
    while let [first, behind @ ..] = rest {
        let hex = behind.get(..2).filter(|_| *first == b'%');
        let byte = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = behind.get(if byte.is_some() { 2 } else { 0 }..).unwrap_or_default();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads the one message of a response.
async fn read_message<B: Message + Default>(mut body: RecvStream) -> Result<B, Status> {
    let mut buffer = MessageBuffer::default();
    while let Some(data) = body.data().await {
        let data = data.map_err(maybe_sent_error)?;
        body.flow_control().release_capacity(data.len()).map_err(maybe_sent_error)?;
        if buffer.push_chunk(data)? {
            return Err(Status::internal("it returned more than one message"));
        }
    }
    let trailers = body.trailers().await.map_err(maybe_sent_error)?;
    let final_status = trailers.as_ref().and_then(parse_status);
    final_status
        .ok_or_else(|| maybe_sent_error(io::Error::from(io::ErrorKind::UnexpectedEof)))??;
    let payload =
        buffer.into_message()?.ok_or_else(|| Status::internal("its response is incomplete"))?;
    B::decode(payload).map_err(|error| Status::internal(format!("its response: {error}")))
}

/// Returns the status of a failed connection. The call may have run.
fn maybe_sent_error(error: impl std::error::Error + Send + Sync + 'static) -> Status {
    let mut status = Status::unavailable(error.to_string());
    status.set_source(Arc::new(error));
    status
}

fn not_sent_error(error: h2::Error) -> Status {
    connect_error(Box::new(error))
}

/// Returns the status of a failed connection attempt. Nothing was sent.
fn connect_error(error: Box<dyn std::error::Error + Send + Sync>) -> Status {
    maybe_sent_error(ConnectError(error))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Uri;

    use super::{CALL_FUNCTION_URI, format_timeout, percent_decode};

    #[test]
    fn what_is_asked_for_is_what_is_served() {
        let called =
            format!("/{}/CallFunction", crate::toolrpc::tool_executor_server::SERVICE_NAME);
        assert_eq!(Uri::from_static(CALL_FUNCTION_URI).path(), called);
    }

    #[test]
    fn a_timeout_has_eight_digits_at_most() {
        for (within, text) in [
            (Duration::from_millis(30), "30000u"),
            (Duration::from_micros(999_999), "999999u"),
            (Duration::from_micros(29_999_213), "30000m"),
            (Duration::from_secs(100), "100000m"),
            (Duration::from_secs(99_999), "99999000m"),
            (Duration::from_hours(48), "172800S"),
            (Duration::MAX, "99999999S"),
            (Duration::ZERO, "0u"),
        ] {
            assert_eq!(format_timeout(within), text);
        }
    }

    #[test]
    fn a_status_text_is_read_as_it_was_meant() {
        for (sent, meant) in
            [("a b", "a b"), ("%C3%A4%0a", "\u{e4}\n"), ("100%", "100%"), ("%zz%4", "%zz%4")]
        {
            assert_eq!(percent_decode(sent.as_bytes()), meant);
        }
    }
}
