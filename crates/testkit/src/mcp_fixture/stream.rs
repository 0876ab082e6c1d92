//! Response bodies: one JSON text, or server-sent events with the work that produces them.

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

pub(super) type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An event body with the work that produces it. Both are dropped when the client disconnects.
struct Events {
    work: Option<Work>,
    lines: mpsc::Receiver<Bytes>,
}

impl Body for Events {
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
pub(super) struct Sender(mpsc::Sender<Bytes>);

impl Sender {
    /// Sends a message as an event.
    pub(super) async fn message(&self, message: &Value) {
        self.raw(format!("event: message\ndata: {message}\n\n")).await;
    }

    /// Sends raw lines.
    pub(super) async fn raw(&self, lines: String) {
        // The client may have disconnected.
        let _sent = self.0.send(Bytes::from(lines)).await;
    }
}

/// Creates an event stream that ends with `work`.
pub(super) fn events<F>(work: impl FnOnce(Sender) -> F) -> Answer
where
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, lines) = mpsc::channel(64);
    let work: Work = Box::pin(work(Sender(sender)));
    let mut answer = Response::new(Events { work: Some(work), lines }.boxed_unsync());
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    answer
}

pub(super) fn json(status: StatusCode, message: &Value) -> Answer {
    let mut answer = plain(status, message.to_string());
    let kind = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}

pub(super) fn plain(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(text.into()).boxed_unsync());
    *answer.status_mut() = status;
    answer
}
