//! One connection of HTTP/1.1, as its client. It is strict where a reader that is not could be led to take
//! one response for two: then the connection serves nobody any more.
//!
//! It is driven by whoever uses it, not by a task of its own: dropped with its request, it is closed at
//! once, and the other side sees that.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::body_framing::{BodyFraming, BodyPart};
use crate::error::ProtocolError;
use crate::read_buffer::poll_fill;
use crate::request_encoder::EncodedRequest;
use crate::response_head::{self, CachedResponse, ResponseStart};

/// The most room for one read, in bytes.
const MAX_READ: usize = 64 << 10;
/// Responses before the response, such as `103 Early Hints`.
const MAX_INTERIM: usize = 16;

/// Why no response came.
#[derive(Debug)]
pub struct ExchangeError {
    /// Whether nothing of the request went out.
    pub is_unsent: bool,
    /// Why.
    pub error: ProtocolError,
}

/// A connection of HTTP/1.1, as its client. It has no task of its own: its user polls it, so that dropping
/// it with the request closes it.
pub struct ClientConnection<S> {
    stream: S,
    /// What came and was not read.
    read_buffer: BytesMut,
    /// Bytes of it in which no head ends.
    looked: usize,
    /// Whether it can serve another request.
    is_usable: bool,
    cached_head: Option<CachedResponse>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> ClientConnection<S> {
    /// Over a stream on which nothing was sent.
    pub fn new(stream: S) -> Self {
        let read_buffer = BytesMut::new();
        Self { stream, read_buffer, looked: 0, is_usable: true, cached_head: None }
    }

    /// Whether the other side has kept quiet and is there, as far as is known.
    pub fn is_quiet(&mut self) -> bool {
        // Nobody waits here: who left its waker would be woken by its own next request.
        let mut nobody = Context::from_waker(Waker::noop());
        self.is_free() && self.poll_read(&mut nobody).is_pending()
    }

    /// Whether it can take another request, without a look at the other side.
    pub fn is_free(&self) -> bool {
        self.is_usable && self.read_buffer.is_empty()
    }

    /// Sends a request; resolves with the head of its response, and with how its body is framed.
    ///
    /// # Errors
    /// [`ExchangeError`], after which the connection is to be dropped.
    pub async fn send(&mut self, request: &EncodedRequest) -> Result<ResponseStart, ExchangeError> {
        let (mut sent, mut flushed, mut interim, mut broken) = (0, false, 0, None);
        poll_fn(|cx| {
            if !flushed && broken.is_none() {
                match self.poll_send(cx, request, &mut sent) {
                    Poll::Ready(Ok(())) => flushed = true,
                    Poll::Ready(Err(error)) if sent == 0 => {
                        let error = ProtocolError::Io(error);
                        return Poll::Ready(Err(ExchangeError { is_unsent: true, error }));
                    }
                    // It may have answered all the same, before it heard all.
                    Poll::Ready(Err(error)) => broken = Some(error),
                    Poll::Pending => {}
                }
            }
            let head = match self.poll_head(cx, request.is_head()) {
                Poll::Ready(head) => head,
                Poll::Pending => match broken.take() {
                    Some(error) => Err(ProtocolError::Io(error)),
                    None => return Poll::Pending,
                },
            };
            Poll::Ready(
                match head {
                    Ok(head) if head.is_interim() && interim < MAX_INTERIM => {
                        interim += 1;
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    Ok(head) if head.is_interim() => {
                        Err(ProtocolError::Invalid("it announces without end"))
                    }
                    Ok(head) => {
                        self.is_usable &= head.keeps_alive && flushed;
                        Ok(head)
                    }
                    Err(error) => Err(error),
                }
                .map_err(|error| ExchangeError { is_unsent: false, error }),
            )
        })
        .await
    }

    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        request: &EncodedRequest,
        sent: &mut usize,
    ) -> Poll<io::Result<()>> {
        loop {
            let [text, body] = request.after(*sent);
            let stream = Pin::new(&mut self.stream);
            let written = match (text.is_empty(), body.is_empty()) {
                (true, true) => return stream.poll_flush(cx),
                (false, true) => stream.poll_write(cx, text),
                (true, false) => stream.poll_write(cx, body),
                (false, false) if !stream.is_write_vectored() => stream.poll_write(cx, text),
                (false, false) => {
                    stream.poll_write_vectored(cx, &[IoSlice::new(text), IoSlice::new(body)])
                }
            };
            match ready!(written)? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => *sent += written,
            }
        }
    }

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        is_bodiless: bool,
    ) -> Poll<Result<ResponseStart, ProtocolError>> {
        loop {
            if response_head::may_end(&self.read_buffer, self.looked) {
                let cached = self.cached_head.as_ref().filter(|_| !is_bodiless);
                let found = cached
                    .and_then(|cached| response_head::match_cached(cached, &self.read_buffer));
                let read = || {
                    response_head::parse_head(&self.read_buffer, is_bodiless, &mut self.cached_head)
                };
                match found.map_or_else(read, |found| Ok(Some(found))) {
                    Ok(Some((head, end))) => {
                        self.read_buffer.advance(end);
                        self.looked = 0;
                        return Poll::Ready(Ok(head));
                    }
                    Ok(None) => {}
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            self.looked = self.read_buffer.len();
            if self.looked > response_head::MAX_HEAD {
                return Poll::Ready(Err(response_head::HEAD_TOO_LARGE));
            }
            match ready!(self.poll_read(cx)) {
                Ok(0) => {
                    return Poll::Ready(Err(ProtocolError::Invalid(
                        "the connection was closed before it",
                    )));
                }
                Ok(_) => {}
                Err(error) => return Poll::Ready(Err(ProtocolError::Io(error))),
            }
        }
    }

    /// The next part of a body, which is over where `framing` says so afterwards.
    pub fn poll_part(
        &mut self,
        framing: &mut BodyFraming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, ProtocolError>>> {
        loop {
            match framing.read(&mut self.read_buffer) {
                Ok(BodyPart::Data(data)) => return Poll::Ready(Some(Ok(data))),
                Ok(BodyPart::End) => return Poll::Ready(None),
                Ok(BodyPart::Incomplete) => {}
                Err(error) => return Poll::Ready(Some(self.fail(error))),
            }
            match ready!(self.poll_read(cx)) {
                Ok(0) if framing.ends_with_the_connection() => {
                    *framing = BodyFraming::Complete;
                    return Poll::Ready(None);
                }
                Ok(0) => {
                    let error = ProtocolError::Invalid("the connection was closed before its end");
                    return Poll::Ready(Some(self.fail(error)));
                }
                Ok(_) => {}
                Err(error) => return Poll::Ready(Some(self.fail(ProtocolError::Io(error)))),
            }
        }
    }

    fn fail<T>(&mut self, error: ProtocolError) -> Result<T, ProtocolError> {
        self.is_usable = false;
        Err(error)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let read = ready!(poll_fill(&mut self.stream, &mut self.read_buffer, MAX_READ, cx));
        self.is_usable &= matches!(read, Ok(1..));
        Poll::Ready(read)
    }
}

impl<S> fmt::Debug for ClientConnection<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientConnection")
            .field("is_usable", &self.is_usable)
            .finish_non_exhaustive()
    }
}
