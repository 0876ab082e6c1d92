//! A stream that fails when the peer reads nothing for a minute, and that ends shortly after the peer has
//! ended its half.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Timeout of a write without progress. A slow reader makes progress now and then; a peer that
/// reads nothing keeps a response in memory.
const WRITE_STALL_TIMEOUT: Duration = Duration::from_mins(1);

/// Time after a half-close in which a call may still respond. A client may close its half after its
/// last request (RFC 9293, 3.6), which looks like a client that is gone and whose call must be
/// cancelled.
const HALF_CLOSE_GRACE: Duration = Duration::from_millis(250);

/// A stream with a timeout for writes that make no progress, and a grace period after the peer's end.
#[derive(Debug)]
pub struct TimeoutStream<S> {
    stream: S,
    /// Set while a write is pending.
    write_timer: Option<Pin<Box<Sleep>>>,
    /// Set after the peer closed its half. The end of the stream is reported when it fires.
    eof_timer: Option<Pin<Box<Sleep>>>,
}

impl<S> TimeoutStream<S> {
    /// Wraps the given stream.
    pub fn new(stream: S) -> Self {
        Self { stream, write_timer: None, eof_timer: None }
    }

    /// Polls a write and fails if it makes no progress within the timeout.
    fn poll_with_stall_timeout<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.write_timer = None;
            return written;
        }
        let timer = self
            .write_timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(WRITE_STALL_TIMEOUT)));
        ready!(timer.as_mut().poll(cx));
        let message = format!("nothing was read for {} s", WRITE_STALL_TIMEOUT.as_secs());
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.eof_timer.is_none() {
            let before = buf.filled().len();
            ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
            if buf.filled().len() > before || buf.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
        }
        let end =
            self.eof_timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(HALF_CLOSE_GRACE)));
        end.as_mut().poll(cx).map(Ok)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimeoutStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.poll_with_stall_timeout(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.poll_with_stall_timeout(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.poll_with_stall_timeout(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::{Instant, sleep};

    use super::{HALF_CLOSE_GRACE, TimeoutStream, WRITE_STALL_TIMEOUT};

    #[tokio::test(start_paused = true)]
    async fn who_has_sent_all_still_gets_an_answer_and_is_not_waited_for_long() {
        let (near, mut far) = tokio::io::duplex(64);
        let mut stream = TimeoutStream::new(near);
        far.write_all(b"a request").await.unwrap();
        far.shutdown().await.unwrap();
        let mut request = [0; 64];
        assert_eq!(stream.read(&mut request).await.unwrap(), 9);
        let began = Instant::now();
        tokio::select! {
            biased;
            _ = stream.read(&mut request) => panic!("the end is told before there was time to answer"),
            () = sleep(HALF_CLOSE_GRACE / 2) => {}
        }
        stream.write_all(b"an answer").await.unwrap();
        let mut answer = [0; 9];
        far.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"an answer");
        assert_eq!(stream.read(&mut request).await.unwrap(), 0);
        assert!(began.elapsed() >= HALF_CLOSE_GRACE);
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_given_up_and_who_takes_little_is_not() {
        let (near, mut far) = tokio::io::duplex(8);
        let mut stream = TimeoutStream::new(near);
        let slow = async {
            let mut byte = [0];
            for _ in 0..100 {
                sleep(WRITE_STALL_TIMEOUT / 2).await;
                far.read_exact(&mut byte).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(stream.write_all(&[7; 100]), slow);
        written.unwrap();
        let before = Instant::now();
        let error = stream.write_all(&[7; 100]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(before.elapsed() >= WRITE_STALL_TIMEOUT);
        drop(far);
    }
}
