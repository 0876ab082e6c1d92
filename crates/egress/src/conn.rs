//! One connection of HTTP/1.1, as its client. It is strict where a reader that is not could be led to take
//! one response for two: then the connection serves nobody any more.
//!
//! It is driven by whoever uses it, not by a task of its own: dropped with its request, it is closed at
//! once, and the other side sees that.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWrite as _};

use super::dial::Stream;
use super::framing::{Fault, Framing, Part};
use super::head::{self, Head, Known};
use super::prepared::Wire;
use super::received::Said;

/// Room for what is read at once, in bytes, and what is too little of it.
const ROOM: (usize, usize) = (8 << 10, 1 << 10);
/// The most room for one read, in bytes.
const LARGE: usize = 64 << 10;
/// Responses before the response, such as `103 Early Hints`.
const EARLY: usize = 16;

/// Why no response came.
#[derive(Debug)]
pub(super) struct Failed {
    /// Whether nothing of the request went out.
    pub(super) unsent: bool,
    pub(super) fault: Fault,
}

/// See the module's header.
pub(super) struct Conn {
    stream: Stream,
    /// What came and was not read.
    heard: BytesMut,
    /// Bytes of it in which no head ends.
    looked: usize,
    /// Whether it can serve another request.
    good: bool,
    known: Option<Known>,
}

impl Conn {
    pub(super) fn over(stream: Stream) -> Self {
        Self { stream, heard: BytesMut::new(), looked: 0, good: true, known: None }
    }

    /// Whether the other side has kept quiet and is there, as far as is known.
    pub(super) fn is_quiet(&mut self) -> bool {
        // Nobody waits here: who left its waker would be woken by its own next request.
        let mut nobody = Context::from_waker(Waker::noop());
        self.is_free() && self.poll_hear(&mut nobody).is_pending()
    }

    /// Whether it can take another request, without a look at the other side.
    pub(super) fn is_free(&self) -> bool {
        self.good && self.heard.is_empty()
    }

    /// Sends a request; resolves with the head of its response, and with how its body is framed.
    pub(super) async fn send(&mut self, wire: &Wire) -> Result<(Arc<Said>, Framing), Failed> {
        let (mut sent, mut flushed, mut early, mut broken) = (0, false, 0, None);
        poll_fn(|cx| {
            if !flushed && broken.is_none() {
                match self.poll_send(cx, wire, &mut sent) {
                    Poll::Ready(Ok(())) => flushed = true,
                    Poll::Ready(Err(error)) if sent == 0 => {
                        let fault = Fault::Io(error);
                        return Poll::Ready(Err(Failed { unsent: true, fault }));
                    }
                    // It may have answered all the same, before it heard all.
                    Poll::Ready(Err(error)) => broken = Some(error),
                    Poll::Pending => {}
                }
            }
            let head = match self.poll_head(cx, wire.is_head()) {
                Poll::Ready(head) => head,
                Poll::Pending => match broken.take() {
                    Some(error) => Err(Fault::Io(error)),
                    None => return Poll::Pending,
                },
            };
            Poll::Ready(
                match head {
                    Ok(head) if head.is_early() && early < EARLY => {
                        early += 1;
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    Ok(head) if head.is_early() => Err(Fault::Not("it announces without end")),
                    Ok(head) => {
                        self.good &= head.keeps && flushed;
                        Ok((head.said, head.framing))
                    }
                    Err(fault) => Err(fault),
                }
                .map_err(|fault| Failed { unsent: false, fault }),
            )
        })
        .await
    }

    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        wire: &Wire,
        sent: &mut usize,
    ) -> Poll<io::Result<()>> {
        loop {
            let [text, body] = wire.after(*sent);
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

    fn poll_head(&mut self, cx: &mut Context<'_>, silent: bool) -> Poll<Result<Head, Fault>> {
        loop {
            if head::may_end(&self.heard, self.looked) {
                let known = self.known.as_ref().filter(|_| !silent);
                let found = known.and_then(|known| known.fits(&self.heard));
                let read = || head::read(&self.heard, silent, &mut self.known);
                match found.map_or_else(read, |found| Ok(Some(found))) {
                    Ok(Some((head, end))) => {
                        self.heard.advance(end);
                        self.looked = 0;
                        return Poll::Ready(Ok(head));
                    }
                    Ok(None) => {}
                    Err(fault) => return Poll::Ready(Err(fault)),
                }
            }
            self.looked = self.heard.len();
            if self.looked > head::LONGEST {
                return Poll::Ready(Err(head::TOO_LARGE));
            }
            match ready!(self.poll_hear(cx)) {
                Ok(0) => {
                    return Poll::Ready(Err(Fault::Not("the connection was closed before it")));
                }
                Ok(_) => {}
                Err(error) => return Poll::Ready(Err(Fault::Io(error))),
            }
        }
    }

    /// The next part of a body, which is over where `framing` says so afterwards.
    pub(super) fn poll_part(
        &mut self,
        framing: &mut Framing,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Fault>>> {
        loop {
            match framing.read(&mut self.heard) {
                Ok(Part::Data(data)) => return Poll::Ready(Some(Ok(data))),
                Ok(Part::End) => return Poll::Ready(None),
                Ok(Part::More) => {}
                Err(fault) => return Poll::Ready(Some(self.bad(fault))),
            }
            match ready!(self.poll_hear(cx)) {
                Ok(0) if framing.ends_with_the_connection() => {
                    *framing = Framing::Over;
                    return Poll::Ready(None);
                }
                Ok(0) => {
                    let fault = Fault::Not("the connection was closed before its end");
                    return Poll::Ready(Some(self.bad(fault)));
                }
                Ok(_) => {}
                Err(error) => return Poll::Ready(Some(self.bad(Fault::Io(error)))),
            }
        }
    }

    fn bad<T>(&mut self, fault: Fault) -> Result<T, Fault> {
        self.good = false;
        Err(fault)
    }

    fn poll_hear(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.heard.capacity() - self.heard.len() < ROOM.1 {
            self.heard.reserve(self.heard.len().clamp(ROOM.0, LARGE));
        }
        let read = ready!(pin!(self.stream.read_buf(&mut self.heard)).poll(cx));
        self.good &= matches!(read, Ok(1..));
        Poll::Ready(read)
    }
}

impl fmt::Debug for Conn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conn").field("good", &self.good).finish_non_exhaustive()
    }
}
