//! The server side of an HTTP/1.1 connection: reads and answers requests with exactly one
//! interpretation.
//!
//! A request qualifies if it has the expected first bytes and one length, changes no connection
//! option and arrives within a second. The first other request hands the connection and its unread
//! bytes to hyper.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, Sleep, sleep};

use crate::cached_head::CachedHead;
use crate::prefixed_io::PrefixedIo;
use crate::read_buffer::poll_fill_buffer;
use crate::request_head::{self, HeadParse, RequestHead};
use crate::response_writer::DateHeader;

/// Timeout from the first byte of a request to its last.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum buffer space reserved for one read, in bytes. A buffer at most doubles, and a body is
/// bounded.
const MAX_READ_RESERVE: usize = usize::MAX;

/// The requests that the connection accepts, and its limits.
#[derive(Debug, Clone, Copy)]
pub struct RequestRules<T> {
    /// The first bytes of accepted requests, such as `POST /`.
    pub request_prefix: &'static [u8],
    /// Accepts or rejects a head, and returns the value that is cached with it.
    pub accept_head: fn(RequestHead) -> Option<T>,
    /// Maximum size of a body, in bytes.
    pub max_body_bytes: usize,
    /// Idle timeout; the connection closes after once to twice this time.
    pub idle_timeout: Duration,
}

/// The server side of a connection, which caches the last head with the caller's `T`.
pub struct ServerConnection<S, T> {
    pub(crate) stream: S,
    rules: RequestRules<T>,
    /// Bytes that were received and not yet parsed.
    pub(crate) read_buffer: BytesMut,
    /// The write buffer, kept for its capacity.
    pub(crate) write_buffer: Vec<u8>,
    cached_head: Option<CachedHead<Arc<T>>>,
    /// Reset lazily: activity is checked only when it fires.
    idle_timer: Pin<Box<Sleep>>,
    had_request: bool,
    pub(crate) date_header: DateHeader,
}

/// Omits the buffers, because they hold credentials.
impl<S, T> fmt::Debug for ServerConnection<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cached = self.cached_head.is_some();
        f.debug_struct("ServerConnection").field("cached_head", &cached).finish_non_exhaustive()
    }
}

/// The next event of a connection.
#[derive(Debug)]
pub enum NextRequest<T> {
    /// A request with its body.
    Ready(Arc<T>, Bytes),
    /// A request that is left to hyper.
    Fallback,
    /// The connection is closed.
    Closed,
}

/// The state of the request in the read buffer.
enum BufferedRequest<T> {
    Complete(Arc<T>, Bytes),
    Incomplete,
    Fallback,
}

/// The event that ended a wait for input.
enum ReadEvent {
    Data,
    Closed,
    TimedOut,
}

impl<S: AsyncRead + AsyncWrite + Unpin, T> ServerConnection<S, T> {
    /// Creates a connection over an unread stream.
    pub fn new(stream: S, rules: RequestRules<T>) -> Self {
        Self {
            stream,
            read_buffer: BytesMut::new(),
            write_buffer: Vec::new(),
            cached_head: None,
            idle_timer: Box::pin(sleep(rules.idle_timeout)),
            had_request: false,
            date_header: DateHeader::default(),
            rules,
        }
    }

    /// Returns the next complete request. An idle connection closes when `stopping` is ready.
    pub async fn next_request<F: Future>(&mut self, mut stopping: Pin<&mut F>) -> NextRequest<T> {
        let mut request_timer = None;
        loop {
            match self.take_buffered() {
                BufferedRequest::Complete(head, body) => {
                    self.had_request = true;
                    return NextRequest::Ready(head, body);
                }
                BufferedRequest::Fallback => return NextRequest::Fallback,
                BufferedRequest::Incomplete => {}
            }
            match poll_fn(|cx| self.poll_read_event(cx, stopping.as_mut(), &mut request_timer))
                .await
            {
                ReadEvent::Data => {}
                ReadEvent::Closed if self.read_buffer.is_empty() => return NextRequest::Closed,
                // Incomplete and slow requests are left to hyper.
                ReadEvent::Closed | ReadEvent::TimedOut => return NextRequest::Fallback,
            }
        }
    }

    fn take_buffered(&mut self) -> BufferedRequest<T> {
        if self.read_buffer.is_empty() {
            return BufferedRequest::Incomplete;
        }
        let cached = self.cached_head.as_ref();
        let found = cached.and_then(|cached| {
            Some((request_head::match_cached(cached, &self.read_buffer)?, cached.value()))
        });
        let (size, head) = if let Some((size, head)) = found {
            (size, Arc::clone(head))
        } else {
            let accept = |head| (self.rules.accept_head)(head).map(Arc::new);
            match request_head::parse_head(&self.read_buffer, self.rules.request_prefix, accept) {
                HeadParse::Complete(cached, size) => {
                    let head = Arc::clone(cached.value());
                    self.cached_head = Some(cached);
                    (size, head)
                }
                HeadParse::Incomplete => return BufferedRequest::Incomplete,
                HeadParse::Unsupported => return BufferedRequest::Fallback,
            }
        };
        if size.body > self.rules.max_body_bytes {
            return BufferedRequest::Fallback;
        }
        if self.read_buffer.len() < size.head + size.body {
            return BufferedRequest::Incomplete;
        }
        self.read_buffer.advance(size.head);
        BufferedRequest::Complete(head, self.read_buffer.split_to(size.body).freeze())
    }

    fn poll_read_event<F: Future>(
        &mut self,
        cx: &mut Context<'_>,
        stopping: Pin<&mut F>,
        late: &mut Option<Pin<Box<Sleep>>>,
    ) -> Poll<ReadEvent> {
        if let Poll::Ready(read) =
            poll_fill_buffer(&mut self.stream, &mut self.read_buffer, MAX_READ_RESERVE, cx)
        {
            return Poll::Ready(match read {
                Ok(1..) => ReadEvent::Data,
                Ok(0) | Err(_) => ReadEvent::Closed,
            });
        }
        if !self.read_buffer.is_empty() {
            let late = late.get_or_insert_with(|| Box::pin(sleep(REQUEST_TIMEOUT)));
            return late.as_mut().poll(cx).map(|()| ReadEvent::TimedOut);
        }
        if stopping.poll(cx).is_ready() {
            return Poll::Ready(ReadEvent::Closed);
        }
        while self.idle_timer.as_mut().poll(cx).is_ready() {
            if !std::mem::take(&mut self.had_request) {
                return Poll::Ready(ReadEvent::Closed);
            }
            self.idle_timer.as_mut().reset(Instant::now() + self.rules.idle_timeout);
        }
        Poll::Pending
    }

    /// Runs `work` until the peer disconnects; returns `None` then.
    pub async fn run_until_disconnect<F: Future>(
        &mut self,
        mut work: Pin<Box<F>>,
    ) -> Option<F::Output> {
        poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(Some(done));
            }
            if is_peer_closed(&mut self.stream, &mut self.read_buffer, cx) {
                return Poll::Ready(None);
            }
            Poll::Pending
        })
        .await
    }

    /// Closes the write half of the connection.
    pub async fn shutdown(&mut self) {
        // A peer that is gone already needs no end.
        drop(self.stream.shutdown().await);
    }

    /// Returns the stream, which first yields the buffered bytes, for hyper.
    pub fn into_io(self) -> PrefixedIo<S> {
        PrefixedIo::new(self.read_buffer.freeze(), self.stream)
    }
}

/// Whether the peer disconnected. Data that it sends early stays in the buffer, and no more is
/// read.
pub(crate) fn is_peer_closed<S: AsyncRead + Unpin>(
    stream: &mut S,
    read_buffer: &mut BytesMut,
    cx: &mut Context<'_>,
) -> bool {
    read_buffer.is_empty()
        && matches!(
            poll_fill_buffer(stream, read_buffer, MAX_READ_RESERVE, cx),
            Poll::Ready(Ok(0) | Err(_))
        )
}
