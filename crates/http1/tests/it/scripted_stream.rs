//! A connection in memory whose other side says what a test gives it, in pieces of a given size.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Polls of a future that waits for nobody before it counts as stuck: hyper yields now and then.
const MAX_POLLS: usize = 200;

/// See the module's header.
#[derive(Debug)]
pub(crate) struct ScriptedStream {
    /// What it says, each part once one more request was written; a server's client says the first at once.
    parts: Vec<Vec<u8>>,
    allowed: usize,
    at: (usize, usize),
    /// Bytes of one read.
    step: usize,
}

impl ScriptedStream {
    /// Says all at once.
    pub(crate) fn new_client(input: &[u8], step: usize) -> Self {
        Self { parts: vec![input.to_vec()], allowed: 1, at: (0, 0), step }
    }

    /// Answers each request with the next part.
    pub(crate) fn new_server(parts: &[Vec<u8>], step: usize) -> Self {
        Self { parts: parts.to_vec(), allowed: 0, at: (0, 0), step }
    }

    /// The next bytes; none at the end.
    fn next(&mut self, room: usize) -> Poll<&[u8]> {
        while self.at.0 < self.allowed.min(self.parts.len()) {
            let (part, from) = self.at;
            if from < self.parts[part].len() {
                let end = self.parts[part].len().min(from + self.step.min(room));
                self.at.1 = end;
                return Poll::Ready(&self.parts[part][from..end]);
            }
            self.at = (part + 1, 0);
        }
        if self.at.0 < self.parts.len() { Poll::Pending } else { Poll::Ready(&[]) }
    }

    fn take(&mut self, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.allowed += usize::from(bytes.ends_with(b"\r\n\r\n"));
        Poll::Ready(Ok(bytes.len()))
    }
}

impl AsyncRead for ScriptedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.next(buf.remaining()).map(|part| {
            buf.put_slice(part);
            Ok(())
        })
    }
}

impl Read for ScriptedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.next(buf.remaining()).map(|part| {
            buf.put_slice(part);
            Ok(())
        })
    }
}

impl AsyncWrite for ScriptedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.take(bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Write for ScriptedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.take(bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// What a future that waits for nobody comes to; nothing where it is stuck.
pub(crate) fn run<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    run_polled(|cx| future.as_mut().poll(cx))
}

/// The same of what is polled.
pub(crate) fn run_polled<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
    let mut cx = Context::from_waker(Waker::noop());
    (0..MAX_POLLS).find_map(|_| match poll(&mut cx) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    })
}

/// A runtime to be entered for its timers, none of which ever fires.
pub(crate) fn timers() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().unwrap()
}
