//! A connection that hyper reads and writes. Its user polls it, as the other kind: dropped with its request, it
//! is closed at once.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http::Request;
use http::header::{CONTENT_LENGTH, HeaderMap};
use http_body::Body as _;
use http_body_util::Full;
use http1::{
    BodyFraming, ExchangeError, ProtocolError, ResponseHead, ResponseStart, parse_decimal,
};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self as client, SendRequest};
use hyper_util::rt::TokioIo;

use crate::dial::Stream;

type HyperConnection = client::Connection<TokioIo<Stream>, Full<Bytes>>;

/// See the module's header.
pub(crate) struct StandardConnection {
    sender: SendRequest<Full<Bytes>>,
    /// Nothing once it ended.
    connection: Option<HyperConnection>,
    body: Option<Incoming>,
}

impl StandardConnection {
    pub(super) async fn new(stream: Stream) -> Result<Self, hyper::Error> {
        let (sender, connection) = client::handshake(TokioIo::new(stream)).await?;
        Ok(Self { sender, connection: Some(connection), body: None })
    }

    /// Whether it can take another request, as far as is known.
    pub(super) fn is_free(&mut self) -> bool {
        // Nobody waits here: who left its waker would be woken by its own next request.
        drive(&mut self.connection, &mut Context::from_waker(Waker::noop()));
        self.connection.is_some() && self.sender.is_ready()
    }

    /// Sends a request; resolves with the head of its response.
    pub(super) async fn send(
        &mut self,
        request: &Request<Bytes>,
    ) -> Result<ResponseStart, ExchangeError> {
        self.body = None;
        let mut answer = pin!(self.sender.try_send_request(request.clone().map(Full::new)));
        let connection = &mut self.connection;
        let answered = poll_fn(|cx| {
            if let Poll::Ready(answered) = answer.as_mut().poll(cx) {
                return Poll::Ready(answered);
            }
            drive(connection, cx);
            answer.as_mut().poll(cx)
        });
        let response = answered.await.map_err(|mut failed| {
            let is_unsent = failed.take_message().is_some();
            ExchangeError { is_unsent, error: broken(failed.into_error()) }
        })?;
        let (parts, body) = response.into_parts();
        let mut headers = parts.headers;
        let content_length = take_length(&mut headers, &body);
        let framing = match body.size_hint().exact() {
            _ if body.is_end_stream() => BodyFraming::Complete,
            Some(length) => BodyFraming::Length(length),
            // Where it ends is hyper's to say.
            None => BodyFraming::UntilClose,
        };
        self.body = Some(body);
        let head = Arc::new(ResponseHead { status: parts.status, headers });
        Ok(ResponseStart { head, framing, content_length, keeps_alive: true })
    }

    pub(super) fn poll_part(
        &mut self,
        framing: &mut BodyFraming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, ProtocolError>>> {
        loop {
            let Some(body) = &mut self.body else { return Poll::Ready(None) };
            let mut frame = Pin::new(&mut *body).poll_frame(cx);
            if frame.is_pending() {
                drive(&mut self.connection, cx);
                frame = Pin::new(body).poll_frame(cx);
            }
            match ready!(frame) {
                None => {
                    *framing = BodyFraming::Complete;
                    self.body = None;
                    return Poll::Ready(None);
                }
                Some(Err(error)) => {
                    self.connection = None;
                    return Poll::Ready(Some(Err(broken(error))));
                }
                // Trailers are of no use here.
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    if let BodyFraming::Length(left) = framing {
                        *left = left.saturating_sub(data.len() as u64);
                    }
                    if self.body.as_ref().is_some_and(hyper::body::Body::is_end_stream) {
                        *framing = BodyFraming::Complete;
                        self.body = None;
                    }
                    return Poll::Ready(Some(Ok(data)));
                }
            }
        }
    }
}

/// Lets hyper read and write; a connection that ended is dropped.
fn drive(connection: &mut Option<HyperConnection>, cx: &mut Context<'_>) {
    let open = connection.as_mut();
    if open.is_some_and(|connection| Pin::new(connection).poll(cx).is_ready()) {
        *connection = None;
    }
}

/// The length by which the body is framed, taken from the headers, as the other kind of connection does.
fn take_length(headers: &mut HeaderMap, body: &Incoming) -> Option<u64> {
    let length = parse_decimal(headers.get(CONTENT_LENGTH)?.as_bytes())?;
    let framed = body.size_hint().exact() == Some(length);
    framed.then(|| headers.remove(CONTENT_LENGTH)).map(|_| length)
}

fn broken(error: hyper::Error) -> ProtocolError {
    ProtocolError::Io(io::Error::other(error))
}

impl fmt::Debug for StandardConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = self.connection.is_some();
        f.debug_struct("StandardConnection").field("open", &open).finish_non_exhaustive()
    }
}
