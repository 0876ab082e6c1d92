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

use super::outlet::Outlet;

/// Slices up to this size are copied together: one write of a few kilobytes costs less than two.
const TOGETHER: usize = 16 << 10;
/// Interval after which an idle stream sends a keep-alive comment.
const ALIVE: Duration = Duration::from_secs(15);

/// An HTTP response of the MCP endpoint.
pub type Reply = Response<Body>;

/// The body of a response: byte slices or an event stream.
pub struct Body(Kind);

enum Kind {
    Parts(Parts),
    Events(Box<Events>),
}

/// A body of up to three byte slices.
#[derive(Debug, Default, Clone)]
pub(crate) struct Parts {
    parts: [Bytes; 3],
    next: usize,
}

impl Parts {
    /// Joins prefix, shared bytes and suffix, copying only small bodies.
    pub(crate) fn new(mut head: Vec<u8>, kept: Bytes, tail: Bytes) -> Self {
        if kept.len() > TOGETHER {
            return Self { parts: [head.into(), kept, tail], next: 0 };
        }
        head.reserve_exact(kept.len() + tail.len());
        head.extend_from_slice(&kept);
        head.extend_from_slice(&tail);
        Bytes::from(head).into()
    }

    /// Concatenates all slices into one.
    pub(crate) fn whole(self) -> Bytes {
        let mut parts = self.parts;
        if parts.iter().filter(|part| !part.is_empty()).count() > 1 {
            return parts.concat().into();
        }
        let found = parts.iter_mut().find(|part| !part.is_empty());
        found.map(std::mem::take).unwrap_or_default()
    }

    fn left(&self) -> usize {
        self.parts.iter().skip(self.next).map(Bytes::len).sum()
    }
}

impl From<Bytes> for Parts {
    fn from(whole: Bytes) -> Self {
        Self { parts: [whole, Bytes::new(), Bytes::new()], next: 0 }
    }
}

impl Iterator for Parts {
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
pub(crate) struct Events {
    outlet: Arc<Outlet>,
    /// The task that produces the final event; aborted when the stream is dropped.
    last: Option<AbortOnDropHandle<Option<Bytes>>>,
    ready: Option<Bytes>,
    over: bool,
    alive: Pin<Box<Sleep>>,
    /// Guards that live as long as the stream.
    _held: Box<dyn Any + Send + Sync>,
}

impl Events {
    /// Creates a stream that ends when its sink is closed or, if it has a final event, after that
    /// event.
    pub(crate) fn new(
        outlet: Arc<Outlet>,
        last: Option<AbortOnDropHandle<Option<Bytes>>>,
        held: impl Any + Send + Sync,
    ) -> Self {
        let alive = Box::pin(tokio::time::sleep(ALIVE));
        Self { outlet, last, ready: None, over: false, alive, _held: Box::new(held) }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.over {
            return Poll::Ready(None);
        }
        if let Some(last) = &mut self.last
            && let Poll::Ready(ended) = Pin::new(last).poll(cx)
        {
            // All its notifications are in the sink by now, and precede it.
            self.last = None;
            self.outlet.close();
            self.ready = ended.ok().flatten();
        }
        if let Poll::Ready(event) = self.outlet.poll(cx) {
            let event = event.or_else(|| {
                // Closed from outside: nobody waits for the final event.
                self.over = true;
                self.ready.take()
            });
            self.alive.as_mut().reset(Instant::now() + ALIVE);
            return Poll::Ready(event);
        }
        if self.alive.as_mut().poll(cx).is_ready() {
            self.alive.as_mut().reset(Instant::now() + ALIVE);
            cx.waker().wake_by_ref();
            return Poll::Ready(Some(Bytes::from_static(mcp::sse::KEEP_ALIVE.as_bytes())));
        }
        Poll::Pending
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.outlet.close();
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match &mut self.0 {
            Kind::Parts(parts) => Poll::Ready(parts.next()),
            Kind::Events(events) => events.poll(cx),
        };
        next.map(|next| next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Parts(parts) => parts.left() == 0,
            Kind::Events(events) => events.over,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Parts(parts) => SizeHint::with_exact(parts.left() as u64),
            Kind::Events(_) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Parts(parts) => parts.fmt(f),
            Kind::Events(_) => f.write_str("Events"),
        }
    }
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// A response with one JSON message.
pub(crate) fn json(status: StatusCode, parts: impl Into<Parts>) -> Reply {
    let mut reply = Response::new(Body(Kind::Parts(parts.into())));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, JSON);
    reply
}

/// A response with one gzip-compressed message.
pub(crate) fn packed(parts: [Bytes; 3]) -> Reply {
    let mut reply = json(StatusCode::OK, Parts { parts, next: 0 });
    let headers = reply.headers_mut();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    reply
}

/// A response with a status and no body.
pub(crate) fn empty(status: StatusCode) -> Reply {
    let mut reply = Response::new(Body(Kind::Parts(Parts::default())));
    *reply.status_mut() = status;
    reply
}

fn stream(kind: Kind) -> Reply {
    let mut reply = Response::new(Body(kind));
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, EVENTS);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    let buffering = HeaderName::from_static("x-accel-buffering");
    headers.insert(buffering, HeaderValue::from_static("no"));
    reply
}

/// A response that streams events as they arrive.
pub(crate) fn events(events: Events) -> Reply {
    stream(Kind::Events(Box::new(events)))
}

/// A response with a complete set of events; empty for a cancelled request, which gets no response.
pub(crate) fn told(events: Bytes) -> Reply {
    stream(Kind::Parts(events.into()))
}
