//! Calls of one message and one answer straight over HTTP/2, without what streams need.
//!
//! Each runtime has a connection of its own: nothing of a call is woken from another thread. A connection
//! is asked whether it is still there, and dropped where it is not; its calls end with it.

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

use super::{ALIVE, Dialled, Duplex};
use crate::TIMEOUT;
use crate::message::{HEAD, Pieces, length};

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const TRAILERS: HeaderValue = HeaderValue::from_static("trailers");

/// Bytes of the headers of an answer, and of its trailers.
const HEADERS: u32 = 16 << 10;

/// The path of spec 4's call. The address is the dialler's to know; this one only stands in `:authority`.
const CALLED: &str = "http://node/toolrpc.ToolExecutor/CallFunction";

/// Makes connections.
pub(super) type Dial = Arc<dyn Fn() -> Dialled + Send + Sync>;

/// The connections to one server.
pub(super) struct Short {
    /// What is asked for, read once.
    call: Uri,
    dial: Dial,
    /// As many as there are runtimes that call, which are few: looked through, not hashed.
    open: Mutex<Vec<(Id, Arc<Open>)>>,
    tasks: TaskTracker,
}

impl std::fmt::Debug for Short {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Short")
    }
}

/// That of one runtime.
struct Open {
    now: Mutex<Option<SendRequest<Bytes>>>,
    /// One dials, and the others wait for it.
    dialling: Semaphore,
}

impl Default for Open {
    fn default() -> Self {
        Self { now: Mutex::default(), dialling: Semaphore::new(1) }
    }
}

impl Short {
    pub(super) fn new(dial: Dial) -> Self {
        let (call, open) = (Uri::from_static(CALLED), Mutex::default());
        Self { call, dial, open, tasks: TaskTracker::new() }
    }

    /// Calls. What fails before anything was sent has a [`ConnectError`] beneath it.
    ///
    /// # Errors
    /// The server's status, or what went wrong on the way.
    pub(super) async fn call<A: Message, B: Message + Default>(
        &self,
        asked: &A,
        within: Duration,
    ) -> Result<B, Status> {
        match tokio::time::timeout(within, self.called(asked, within)).await {
            Ok(ended) => ended,
            Err(_) => Err(Status::from_error(Box::new(TimeoutExpired(())))),
        }
    }

    async fn called<A: Message, B: Message + Default>(
        &self,
        asked: &A,
        within: Duration,
    ) -> Result<B, Status> {
        let bytes = written(asked)?;
        let request = request(self.call.clone(), within)?;
        let mut connection = self.connection().await?;
        let (answer, mut body) = connection.send_request(request, false).map_err(unsent)?;
        body.send_data(bytes, true).map_err(broken)?;
        let (head, body) = answer.await.map_err(broken)?.into_parts();
        if head.status != StatusCode::OK {
            return Err(Status::unavailable(format!("it answered with {}", head.status)));
        }
        if let Some(status) = status(&head.headers) {
            status?;
        }
        read(body).await
    }

    /// The connection of this runtime, made anew where it broke.
    async fn connection(&self) -> Result<SendRequest<Bytes>, Status> {
        let open = {
            let here = Handle::current().id();
            let mut all = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, open)) = all.iter().find(|(id, _)| *id == here) {
                Arc::clone(open)
            } else {
                let open = Arc::default();
                all.push((here, Arc::clone(&open)));
                open
            }
        };
        if let Some(ready) = open.ready().await {
            return Ok(ready);
        }
        let _one = open.dialling.acquire().await.map_err(|error| unreached(Box::new(error)))?;
        if let Some(ready) = open.ready().await {
            return Ok(ready);
        }
        let stream = (self.dial)().await.map_err(|error| unreached(Box::new(error)))?;
        let (sender, connection) = h2::client::Builder::new()
            .initial_window_size(1 << 20)
            .initial_connection_window_size(4 << 20)
            .max_header_list_size(HEADERS)
            .enable_push(false)
            .handshake::<_, Bytes>(stream)
            .await
            .map_err(|error| unreached(Box::new(error)))?;
        // It ends with the connection, or with its runtime.
        drop(self.tasks.spawn(carried(connection)));
        let ready = sender.ready().await.map_err(|error| unreached(Box::new(error)))?;
        *open.now.lock().unwrap_or_else(PoisonError::into_inner) = Some(ready.clone());
        Ok(ready)
    }
}

impl Open {
    /// Waits for its turn where there are as many calls as the server takes; nothing where it broke.
    async fn ready(&self) -> Option<SendRequest<Bytes>> {
        let now = self.now.lock().unwrap_or_else(PoisonError::into_inner).clone();
        now?.ready().await.ok()
    }
}

/// Carries a connection for as long as the other side is there.
async fn carried(mut connection: h2::client::Connection<Box<dyn Duplex>, Bytes>) {
    let pings = connection.ping_pong();
    let silent = async {
        match pings {
            Some(pings) => alive(pings).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        ended = connection => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a gRPC connection ended");
            }
        }
        () = silent => tracing::debug!("a gRPC connection fell silent"),
    }
}

/// Asks again and again; ends where no answer comes.
async fn alive(mut pings: PingPong) {
    loop {
        tokio::time::sleep(ALIVE).await;
        let asked = tokio::time::timeout(ALIVE, pings.ping(Ping::opaque())).await;
        if !asked.is_ok_and(|answer| answer.is_ok()) {
            return;
        }
    }
}

fn written<A: Message>(asked: &A) -> Result<Bytes, Status> {
    let mut bytes = BytesMut::with_capacity(HEAD + asked.encoded_len());
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(asked.encoded_len()).unwrap_or(u32::MAX));
    length(&bytes)?;
    asked.encode(&mut bytes).map_err(|error| Status::internal(error.to_string()))?;
    Ok(bytes.freeze())
}

fn request(uri: Uri, within: Duration) -> Result<Request<()>, Status> {
    let timeout = HeaderValue::from_maybe_shared(Bytes::from(timeout(within)));
    let timeout = timeout.map_err(|error| Status::internal(error.to_string()))?;
    let mut request = Request::new(());
    *request.version_mut() = Version::HTTP_2;
    *request.method_mut() = http::Method::POST;
    *request.uri_mut() = uri;
    let headers = request.headers_mut();
    headers.reserve(3);
    headers.extend([(CONTENT_TYPE, GRPC), (TE, TRAILERS), (TIMEOUT, timeout)]);
    Ok(request)
}

/// Up to eight digits and a unit. What is a second or more is told in whole milliseconds, not less than
/// it is: calls that may take as long then say the same, which HTTP/2 writes as one byte.
fn timeout(within: Duration) -> String {
    if within < Duration::from_secs(1) {
        return format!("{}u", within.as_micros());
    }
    let millis = within.as_nanos().div_ceil(1_000_000);
    if millis < 100_000_000 {
        return format!("{millis}m");
    }
    format!("{}S", within.as_secs().min(99_999_999))
}

/// What trailers say, or headers in their place; nothing where they say nothing.
fn status(headers: &HeaderMap) -> Option<Result<(), Status>> {
    let code = Code::from_bytes(headers.get(STATUS)?.as_bytes());
    if code == Code::Ok {
        return Some(Ok(()));
    }
    let text = headers.get(MESSAGE).map(HeaderValue::as_bytes).unwrap_or_default();
    Some(Err(Status::new(code, plain(text))))
}

/// Without the percent signs that gRPC writes other letters with.
fn plain(text: &[u8]) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text);
    while let [first, behind @ ..] = rest {
        let hex = behind.get(..2).filter(|_| *first == b'%');
        let byte = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = behind.get(if byte.is_some() { 2 } else { 0 }..).unwrap_or_default();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The one message of an answer.
async fn read<B: Message + Default>(mut body: RecvStream) -> Result<B, Status> {
    let mut pieces = Pieces::default();
    while let Some(data) = body.data().await {
        let data = data.map_err(broken)?;
        body.flow_control().release_capacity(data.len()).map_err(broken)?;
        if pieces.add(data)? {
            return Err(Status::internal("it answered with more than one message"));
        }
    }
    let trailers = body.trailers().await.map_err(broken)?;
    let ended = trailers.as_ref().and_then(status);
    ended.ok_or_else(|| broken(io::Error::from(io::ErrorKind::UnexpectedEof)))??;
    let whole = pieces.whole()?.ok_or_else(|| Status::internal("its answer is not whole"))?;
    B::decode(whole).map_err(|error| Status::internal(format!("its answer: {error}")))
}

/// The line broke: the call may have run.
fn broken(error: impl std::error::Error + Send + Sync + 'static) -> Status {
    let mut status = Status::unavailable(error.to_string());
    status.set_source(Arc::new(error));
    status
}

fn unsent(error: h2::Error) -> Status {
    unreached(Box::new(error))
}

/// Surely nothing was sent.
fn unreached(error: Box<dyn std::error::Error + Send + Sync>) -> Status {
    broken(ConnectError(error))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Uri;

    use super::{CALLED, plain, timeout};

    #[test]
    fn what_is_asked_for_is_what_is_served() {
        let called =
            format!("/{}/CallFunction", crate::toolrpc::tool_executor_server::SERVICE_NAME);
        assert_eq!(Uri::from_static(CALLED).path(), called);
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
            assert_eq!(timeout(within), text);
        }
    }

    #[test]
    fn a_status_text_is_read_as_it_was_meant() {
        for (sent, meant) in
            [("a b", "a b"), ("%C3%A4%0a", "\u{e4}\n"), ("100%", "100%"), ("%zz%4", "%zz%4")]
        {
            assert_eq!(plain(sent.as_bytes()), meant);
        }
    }
}
