//! Response bodies: up to three byte slices, or an event stream.

use std::any::Any;
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, VARY};
use http::{HeaderValue, Response, StatusCode};
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep};
use tokio_util::task::AbortOnDropHandle;

use super::event_sink::EventSink;

/// Slices up to this size are copied together: one write of a few kilobytes costs less than two.
const MAX_COALESCED_BYTES: usize = 16 << 10;
/// Interval after which an idle stream sends a keep-alive comment.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// An HTTP response of the MCP endpoint.
pub type McpResponse = Response<ResponseBody>;

/// The body of a response: byte slices or an event stream.
pub struct ResponseBody(BodyKind);

enum BodyKind {
    Parts(BodyParts),
    Events(Box<EventStream>),
}

/// A body of up to three byte slices.
#[derive(Debug, Default, Clone)]
pub(crate) struct BodyParts {
    parts: [Bytes; 3],
    next: usize,
}

impl BodyParts {
    /// Joins prefix, shared bytes and suffix, copying only small bodies.
    pub(crate) fn new(mut head: Vec<u8>, shared: Bytes, tail: Bytes) -> Self {
        if shared.len() > MAX_COALESCED_BYTES {
            return Self { parts: [head.into(), shared, tail], next: 0 };
        }
        head.reserve_exact(shared.len() + tail.len());
        head.extend_from_slice(&shared);
        head.extend_from_slice(&tail);
        Bytes::from(head).into()
    }

    /// Concatenates all slices into one.
    pub(crate) fn concat_parts(self) -> Bytes {
        let mut parts = self.parts;
        if parts.iter().filter(|part| !part.is_empty()).count() > 1 {
            return parts.concat().into();
        }
        let found = parts.iter_mut().find(|part| !part.is_empty());
        found.map(std::mem::take).unwrap_or_default()
    }

    fn remaining_bytes(&self) -> usize {
        self.parts.iter().skip(self.next).map(Bytes::len).sum()
    }
}

impl From<Bytes> for BodyParts {
    fn from(whole: Bytes) -> Self {
        Self { parts: [whole, Bytes::new(), Bytes::new()], next: 0 }
    }
}

impl Iterator for BodyParts {
    type Item = Bytes;
    fn next(&mut self) -> Option<Bytes> {
        while let Some(part) = self.parts.get_mut(self.next) {
            self.next += 1;
            if !part.is_empty() {
                return Some(std::mem::take(part));
            }
        }
        None
    }
}

/// A stream of events until its sink closes or the final response is ready.
pub(crate) struct EventStream {
    event_sink: Arc<EventSink>,
    /// The task that produces the final event; aborted when the stream is dropped.
    final_event_task: Option<AbortOnDropHandle<Option<Bytes>>>,
    final_event: Option<Bytes>,
    is_finished: bool,
    keep_alive_timer: Pin<Box<Sleep>>,
    /// Guards that live as long as the stream.
    _guards: Box<dyn Any + Send + Sync>,
}

impl EventStream {
    /// Creates a stream that ends when its sink is closed or, if it has a final event, after that
    /// event.
    pub(crate) fn new(
        sink: Arc<EventSink>,
        last: Option<AbortOnDropHandle<Option<Bytes>>>,
        guard: impl Any + Send + Sync,
    ) -> Self {
        let alive = Box::pin(tokio::time::sleep(KEEP_ALIVE_INTERVAL));
        Self {
            event_sink: sink,
            final_event_task: last,
            final_event: None,
            is_finished: false,
            keep_alive_timer: alive,
            _guards: Box::new(guard),
        }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.is_finished {
            return Poll::Ready(None);
        }
        if let Some(last) = &mut self.final_event_task
            && let Poll::Ready(ended) = Pin::new(last).poll(cx)
        {
            // All its notifications are in the sink by now, and precede it.
            self.final_event_task = None;
            self.event_sink.close();
            self.final_event = ended.ok().flatten();
        }
        if let Poll::Ready(event) = self.event_sink.poll_event(cx) {
            let event = event.or_else(|| {
                // Closed from outside: nobody waits for the final event.
                self.is_finished = true;
                self.final_event.take()
            });
            self.keep_alive_timer.as_mut().reset(Instant::now() + KEEP_ALIVE_INTERVAL);
            return Poll::Ready(event);
        }
        if self.keep_alive_timer.as_mut().poll(cx).is_ready() {
            self.keep_alive_timer.as_mut().reset(Instant::now() + KEEP_ALIVE_INTERVAL);
            cx.waker().wake_by_ref();
            return Poll::Ready(Some(Bytes::from_static(mcp::sse::KEEP_ALIVE.as_bytes())));
        }
        Poll::Pending
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.event_sink.close();
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match &mut self.0 {
            BodyKind::Parts(parts) => Poll::Ready(parts.next()),
            BodyKind::Events(events) => events.poll_event(cx),
        };
        next.map(|next| next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            BodyKind::Parts(parts) => parts.remaining_bytes() == 0,
            BodyKind::Events(events) => events.is_finished,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            BodyKind::Parts(parts) => SizeHint::with_exact(parts.remaining_bytes() as u64),
            BodyKind::Events(_) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            BodyKind::Parts(parts) => parts.fmt(f),
            BodyKind::Events(_) => f.write_str("Events"),
        }
    }
}

const JSON_TYPE: HeaderValue = HeaderValue::from_static("application/json");
const EVENT_STREAM_TYPE: HeaderValue = HeaderValue::from_static("text/event-stream");

/// A response with one JSON message.
pub(crate) fn json_response(status: StatusCode, parts: impl Into<BodyParts>) -> McpResponse {
    let mut reply = Response::new(ResponseBody(BodyKind::Parts(parts.into())));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, JSON_TYPE);
    reply
}

/// A response with one gzip-compressed message.
pub(crate) fn gzip_response(parts: [Bytes; 3]) -> McpResponse {
    let mut reply = json_response(StatusCode::OK, BodyParts { parts, next: 0 });
    let headers = reply.headers_mut();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    reply
}

/// A response with a status and no body.
pub(crate) fn status_response(status: StatusCode) -> McpResponse {
    let mut reply = Response::new(ResponseBody(BodyKind::Parts(BodyParts::default())));
    *reply.status_mut() = status;
    reply
}

fn stream_response(kind: BodyKind) -> McpResponse {
    let mut reply = Response::new(ResponseBody(kind));
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, EVENT_STREAM_TYPE);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    let buffering = HeaderName::from_static("x-accel-buffering");
    headers.insert(buffering, HeaderValue::from_static("no"));
    reply
}

/// A response that streams events as they arrive.
pub(crate) fn event_stream_response(events: EventStream) -> McpResponse {
    stream_response(BodyKind::Events(Box::new(events)))
}

/// A response with a complete set of events; empty for a cancelled request, which gets no response.
pub(crate) fn buffered_events_response(events: Bytes) -> McpResponse {
    stream_response(BodyKind::Parts(events.into()))
}
