//! A server's connection, as far as its requests have one interpretation: one after the other, read and
//! answered here.
//!
//! A request qualifies by its first bytes, has one length, says nothing about the connection, and is there
//! within a second. The first other one hands the connection, with its unread bytes, to hyper.

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
use crate::read_buffer::poll_fill;
use crate::request_head::{self, HeadParse, RequestHead};
use crate::response_writer::DateHeader;

/// How long a request may take from its first byte to its last.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// The most room for one read, in bytes: a buffer at most doubles, and a body is bounded.
const MAX_READ: usize = usize::MAX;

/// Which requests are read here.
#[derive(Debug, Clone, Copy)]
pub struct RequestRules<T> {
    /// What they begin with, such as `POST /`.
    pub start: &'static [u8],
    /// Decides by the head, and makes what is cached with it.
    pub accept: fn(RequestHead) -> Option<T>,
    /// Bytes of the largest body.
    pub max_body: usize,
    /// How long a connection may be idle; up to twice that is.
    pub idle_timeout: Duration,
}

/// A connection and the last head that came on it, with the caller's `T`.
pub struct ServerConnection<S, T> {
    pub(crate) stream: S,
    rules: RequestRules<T>,
    /// What came and was not taken.
    pub(crate) read_buffer: BytesMut,
    /// What goes out, kept for its capacity.
    pub(crate) write_buffer: Vec<u8>,
    cached_head: Option<CachedHead<Arc<T>>>,
    /// Whether there was a request is checked only when it fires.
    idle_timer: Pin<Box<Sleep>>,
    had_request: bool,
    pub(crate) date: DateHeader,
}

/// No more than may be shown: buffers hold credentials.
impl<S, T> fmt::Debug for ServerConnection<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cached = self.cached_head.is_some();
        f.debug_struct("ServerConnection").field("cached_head", &cached).finish_non_exhaustive()
    }
}

/// What comes next on a connection.
#[derive(Debug)]
pub enum NextRequest<T> {
    /// A request with its body.
    Ready(Arc<T>, Bytes),
    /// What is not read here.
    Fallback,
    /// Nothing any more.
    Closed,
}

/// How far the buffer goes.
enum BufferedRequest<T> {
    Complete(Arc<T>, Bytes),
    Incomplete,
    Fallback,
}

/// What ended a wait for more.
enum ReadEvent {
    Data,
    Closed,
    TimedOut,
}

impl<S: AsyncRead + AsyncWrite + Unpin, T> ServerConnection<S, T> {
    /// Over a stream of which nothing was read.
    pub fn new(stream: S, rules: RequestRules<T>) -> Self {
        Self {
            stream,
            read_buffer: BytesMut::new(),
            write_buffer: Vec::new(),
            cached_head: None,
            idle_timer: Box::pin(sleep(rules.idle_timeout)),
            had_request: false,
            date: DateHeader::default(),
            rules,
        }
    }

    /// The next request, once all of it is there. An idle connection closes where `stopping` is ready.
    pub async fn next_request<F: Future>(&mut self, mut stopping: Pin<&mut F>) -> NextRequest<T> {
        let mut late = None;
        loop {
            match self.take_buffered() {
                BufferedRequest::Complete(head, body) => {
                    self.had_request = true;
                    return NextRequest::Ready(head, body);
                }
                BufferedRequest::Fallback => return NextRequest::Fallback,
                BufferedRequest::Incomplete => {}
            }
            match poll_fn(|cx| self.poll_read_event(cx, stopping.as_mut(), &mut late)).await {
                ReadEvent::Data => {}
                ReadEvent::Closed if self.read_buffer.is_empty() => return NextRequest::Closed,
                // What broke off, or takes its time, is judged where all of HTTP is.
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
            let accept = |head| (self.rules.accept)(head).map(Arc::new);
            match request_head::parse_head(&self.read_buffer, self.rules.start, accept) {
                HeadParse::Complete(cached, size) => {
                    let head = Arc::clone(cached.value());
                    self.cached_head = Some(cached);
                    (size, head)
                }
                HeadParse::Incomplete => return BufferedRequest::Incomplete,
                HeadParse::Unsupported => return BufferedRequest::Fallback,
            }
        };
        if size.body > self.rules.max_body {
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
        if let Poll::Ready(read) = poll_fill(&mut self.stream, &mut self.read_buffer, MAX_READ, cx)
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

    /// Runs `work` while the peer is there; nothing where it goes.
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

    /// Says that nothing more is sent.
    pub async fn shutdown(&mut self) {
        // A peer that is gone already needs no end.
        drop(self.stream.shutdown().await);
    }

    /// The connection with what was read and not taken, for the reader of all of HTTP.
    pub fn into_io(self) -> PrefixedIo<S> {
        PrefixedIo::new(self.read_buffer.freeze(), self.stream)
    }
}

/// Whether the peer is gone. What it sends ahead is left for later, and no more than that is read.
pub(crate) fn is_peer_closed<S: AsyncRead + Unpin>(
    stream: &mut S,
    read_buffer: &mut BytesMut,
    cx: &mut Context<'_>,
) -> bool {
    read_buffer.is_empty()
        && matches!(poll_fill(stream, read_buffer, MAX_READ, cx), Poll::Ready(Ok(0) | Err(_)))
}
