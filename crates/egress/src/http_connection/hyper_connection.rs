//! A connection that hyper reads and writes. Its user polls it, so that dropping the request closes
//! the connection at once.

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

use crate::connector::TransportStream;

type ClientConnection = client::Connection<TokioIo<TransportStream>, Full<Bytes>>;

/// An HTTP/1.1 connection of hyper, polled by its user.
pub(crate) struct HyperConnection {
    sender: SendRequest<Full<Bytes>>,
    /// `None` after the connection has ended.
    connection: Option<ClientConnection>,
    body: Option<Incoming>,
}

impl HyperConnection {
    pub(super) async fn new(stream: TransportStream) -> Result<Self, hyper::Error> {
        let (sender, connection) = client::handshake(TokioIo::new(stream)).await?;
        Ok(Self { sender, connection: Some(connection), body: None })
    }

    /// Whether the connection can take another request.
    pub(super) fn is_idle(&mut self) -> bool {
        // Without a waiting task, no waker is needed: the next request polls the connection.
        poll_connection(&mut self.connection, &mut Context::from_waker(Waker::noop()));
        self.connection.is_some() && self.sender.is_ready()
    }

    /// Sends a request and returns the head of its response.
    pub(super) async fn send_request(
        &mut self,
        request: &Request<Bytes>,
    ) -> Result<ResponseStart, ExchangeError> {
        self.body = None;
        let mut response_future =
            pin!(self.sender.try_send_request(request.clone().map(Full::new)));
        let connection = &mut self.connection;
        let response_result = poll_fn(|cx| {
            if let Poll::Ready(answered) = response_future.as_mut().poll(cx) {
                return Poll::Ready(answered);
            }
            poll_connection(connection, cx);
            response_future.as_mut().poll(cx)
        });
        let response = response_result.await.map_err(|mut failed| {
            let is_unsent = failed.take_message().is_some();
            ExchangeError { is_unsent, error: connection_error(failed.into_error()) }
        })?;
        let (parts, body) = response.into_parts();
        let mut headers = parts.headers;
        let content_length = take_content_length(&mut headers, &body);
        let framing = match body.size_hint().exact() {
            _ if body.is_end_stream() => BodyFraming::Complete,
            Some(length) => BodyFraming::Length(length),
            // hyper determines the end of the body.
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
                poll_connection(&mut self.connection, cx);
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
                    return Poll::Ready(Some(Err(connection_error(error))));
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

/// Lets hyper read and write. A connection that has ended is dropped.
fn poll_connection(connection: &mut Option<ClientConnection>, cx: &mut Context<'_>) {
    let open_connection = connection.as_mut();
    if open_connection.is_some_and(|connection| Pin::new(connection).poll(cx).is_ready()) {
        *connection = None;
    }
}

/// Removes `Content-Length` from the headers and returns it, if it frames the body.
fn take_content_length(headers: &mut HeaderMap, body: &Incoming) -> Option<u64> {
    let length = parse_decimal(headers.get(CONTENT_LENGTH)?.as_bytes())?;
    let is_framed_by_length = body.size_hint().exact() == Some(length);
    is_framed_by_length.then(|| headers.remove(CONTENT_LENGTH)).map(|_| length)
}

fn connection_error(error: hyper::Error) -> ProtocolError {
    ProtocolError::Io(io::Error::other(error))
}

impl fmt::Debug for HyperConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = self.connection.is_some();
        f.debug_struct("HyperConnection").field("open", &open).finish_non_exhaustive()
    }
}
