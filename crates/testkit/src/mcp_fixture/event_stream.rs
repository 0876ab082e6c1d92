//! Response bodies of the fixture: one JSON text, or server-sent events with the work that produces
//! them.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body::{Body, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use tokio::sync::mpsc;

pub(super) type FixtureResponse = Response<UnsyncBoxBody<Bytes, Infallible>>;

type EventWork = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An event body with the work that produces it. Both are dropped when the client disconnects.
struct EventBody {
    work: Option<EventWork>,
    lines: mpsc::Receiver<Bytes>,
}

impl Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(work) = &mut self.work
            && work.as_mut().poll(cx).is_ready()
        {
            self.work = None;
        }
        self.lines.poll_recv(cx).map(|line| line.map(|line| Ok(Frame::data(line))))
    }
}

/// Sender of the events of one stream.
#[derive(Debug, Clone)]
pub(super) struct EventSender(mpsc::Sender<Bytes>);

impl EventSender {
    /// Sends a message as an event.
    pub(super) async fn send_message(&self, message: &Value) {
        self.send_lines(format!("event: message\ndata: {message}\n\n")).await;
    }

    /// Sends raw lines of the stream.
    pub(super) async fn send_lines(&self, lines: String) {
        // The client may have disconnected.
        let _sent = self.0.send(Bytes::from(lines)).await;
    }
}

/// Creates an event stream that ends with `work`.
pub(super) fn event_response<F>(work: impl FnOnce(EventSender) -> F) -> FixtureResponse
where
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, lines) = mpsc::channel(64);
    let work: EventWork = Box::pin(work(EventSender(sender)));
    let mut answer = Response::new(EventBody { work: Some(work), lines }.boxed_unsync());
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    answer
}

pub(super) fn json_response(status: StatusCode, message: &Value) -> FixtureResponse {
    let mut answer = text_response(status, message.to_string());
    let kind = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}

pub(super) fn text_response(status: StatusCode, text: impl Into<Bytes>) -> FixtureResponse {
    let mut answer = Response::new(Full::new(text.into()).boxed_unsync());
    *answer.status_mut() = status;
    answer
}
