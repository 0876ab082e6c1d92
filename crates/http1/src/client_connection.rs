//! The client side of an HTTP/1.1 connection. It rejects ambiguous framing (response splitting) and
//! then closes the connection.
//!
//! Its user polls it; it has no task of its own. Dropping it with the request closes it at once,
//! which the server notices.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::body_framing::{BodyFraming, BodyPart};
use crate::error::ProtocolError;
use crate::read_buffer::poll_fill_buffer;
use crate::request_encoder::EncodedRequest;
use crate::response_head::{self, CachedResponse, ResponseStart};

/// Maximum buffer space reserved for one read, in bytes.
const MAX_READ_RESERVE: usize = 64 << 10;
/// Maximum number of interim responses, such as `103 Early Hints`.
const MAX_INTERIM_RESPONSES: usize = 16;

/// The reason why no response arrived.
#[derive(Debug)]
pub struct ExchangeError {
    /// Whether no byte of the request was sent.
    pub is_unsent: bool,
    /// The cause of the failure.
    pub error: ProtocolError,
}

/// The client side of an HTTP/1.1 connection. It has no task of its own: its user polls it, so that
/// dropping it with the request closes it.
pub struct ClientConnection<S> {
    stream: S,
    /// Bytes that were received and not yet parsed.
    read_buffer: BytesMut,
    /// The number of bytes in which no head ends.
    scanned_bytes: usize,
    /// Whether the connection can serve another request.
    is_usable: bool,
    cached_head: Option<CachedResponse>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> ClientConnection<S> {
    /// Creates a connection over an unused stream.
    pub fn new(stream: S) -> Self {
        let read_buffer = BytesMut::new();
        Self { stream, read_buffer, scanned_bytes: 0, is_usable: true, cached_head: None }
    }

    /// Whether the connection is idle, open and has no unexpected data. Polls the stream.
    pub fn is_reusable(&mut self) -> bool {
        // A no-op waker, because a real one would be woken by its own next request.
        let mut noop_context = Context::from_waker(Waker::noop());
        self.is_idle() && self.poll_read(&mut noop_context).is_pending()
    }

    /// Whether the connection can take another request, without polling the stream.
    pub fn is_idle(&self) -> bool {
        self.is_usable && self.read_buffer.is_empty()
    }

    /// Sends a request and returns the head of its response with the framing of its body.
    ///
    /// # Errors
    /// [`ExchangeError`]; drop the connection then.
    pub async fn send_request(
        &mut self,
        request: &EncodedRequest,
    ) -> Result<ResponseStart, ExchangeError> {
        let (mut sent_bytes, mut is_flushed, mut interim_count, mut write_error) =
            (0, false, 0, None);
        poll_fn(|cx| {
            if !is_flushed && write_error.is_none() {
                match self.poll_send(cx, request, &mut sent_bytes) {
                    Poll::Ready(Ok(())) => is_flushed = true,
                    Poll::Ready(Err(error)) if sent_bytes == 0 => {
                        let error = ProtocolError::Io(error);
                        return Poll::Ready(Err(ExchangeError { is_unsent: true, error }));
                    }
                    // The server may have responded before it received everything.
                    Poll::Ready(Err(error)) => write_error = Some(error),
                    Poll::Pending => {}
                }
            }
            let head = match self.poll_head(cx, request.is_head_request()) {
                Poll::Ready(head) => head,
                Poll::Pending => match write_error.take() {
                    Some(error) => Err(ProtocolError::Io(error)),
                    None => return Poll::Pending,
                },
            };
            Poll::Ready(
                match head {
                    Ok(head) if head.is_interim() && interim_count < MAX_INTERIM_RESPONSES => {
                        interim_count += 1;
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    Ok(head) if head.is_interim() => {
                        Err(ProtocolError::Invalid("it sends too many informational responses"))
                    }
                    Ok(head) => {
                        self.is_usable &= head.keeps_alive && is_flushed;
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
            let [text, body] = request.remaining_slices(*sent);
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
            if response_head::may_contain_end(&self.read_buffer, self.scanned_bytes) {
                let cached = self.cached_head.as_ref().filter(|_| !is_bodiless);
                let cached_start = cached
                    .and_then(|cached| response_head::match_cached(cached, &self.read_buffer));
                let read = || {
                    response_head::parse_head(&self.read_buffer, is_bodiless, &mut self.cached_head)
                };
                match cached_start.map_or_else(read, |found| Ok(Some(found))) {
                    Ok(Some((head, end))) => {
                        self.read_buffer.advance(end);
                        self.scanned_bytes = 0;
                        return Poll::Ready(Ok(head));
                    }
                    Ok(None) => {}
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            self.scanned_bytes = self.read_buffer.len();
            if self.scanned_bytes > response_head::MAX_HEAD_BYTES {
                return Poll::Ready(Err(response_head::HEAD_TOO_LARGE));
            }
            match ready!(self.poll_read(cx)) {
                Ok(0) => {
                    return Poll::Ready(Err(ProtocolError::Invalid(
                        "the connection was closed before the response",
                    )));
                }
                Ok(_) => {}
                Err(error) => return Poll::Ready(Err(ProtocolError::Io(error))),
            }
        }
    }

    /// Polls the next part of a body. The body has ended if `framing` is complete afterwards.
    pub fn poll_body(
        &mut self,
        framing: &mut BodyFraming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, ProtocolError>>> {
        loop {
            match framing.decode_part(&mut self.read_buffer) {
                Ok(BodyPart::Data(data)) => return Poll::Ready(Some(Ok(data))),
                Ok(BodyPart::End) => return Poll::Ready(None),
                Ok(BodyPart::Incomplete) => {}
                Err(error) => return Poll::Ready(Some(self.fail_connection(error))),
            }
            match ready!(self.poll_read(cx)) {
                Ok(0) if framing.is_close_delimited() => {
                    *framing = BodyFraming::Complete;
                    return Poll::Ready(None);
                }
                Ok(0) => {
                    let error = ProtocolError::Invalid(
                        "the connection was closed before the end \
                        of the response",
                    );
                    return Poll::Ready(Some(self.fail_connection(error)));
                }
                Ok(_) => {}
                Err(error) => {
                    return Poll::Ready(Some(self.fail_connection(ProtocolError::Io(error))));
                }
            }
        }
    }

    fn fail_connection<T>(&mut self, error: ProtocolError) -> Result<T, ProtocolError> {
        self.is_usable = false;
        Err(error)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let read =
            ready!(poll_fill_buffer(&mut self.stream, &mut self.read_buffer, MAX_READ_RESERVE, cx));
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
