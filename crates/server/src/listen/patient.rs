//! A connection whose other side is waited for, and not for ever: while it reads nothing, and after it
//! has said that it sends no more.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// The longest that nothing at all may be taken of an answer. A slow reader takes something now and
/// then; who takes nothing holds an answer in memory.
const PATIENCE: Duration = Duration::from_mins(1);

/// How long after the other side's end a call may still answer. Who has sent all of its requests may end
/// its half and read on (RFC 9293, 3.6); who is gone looks just the same, and its call is to be given up.
const AFTER_THE_END: Duration = Duration::from_millis(250);

/// Ends a connection whose other side stopped reading.
#[derive(Debug)]
pub(super) struct Patient<S> {
    stream: S,
    /// Set while a write waits.
    timer: Option<Pin<Box<Sleep>>>,
    /// Set once the other side has ended: until then that is kept back.
    end: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, timer: None, end: None }
    }

    /// A write that waits runs out of time.
    fn within<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.timer = None;
            return written;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(PATIENCE)));
        ready!(timer.as_mut().poll(cx));
        let told = format!("nothing was read for {} s", PATIENCE.as_secs());
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, told)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.end.is_none() {
            let before = buf.filled().len();
            ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
            if buf.filled().len() > before || buf.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
        }
        let end = self.end.get_or_insert_with(|| Box::pin(tokio::time::sleep(AFTER_THE_END)));
        end.as_mut().poll(cx).map(Ok)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.within(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.within(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.within(cx, flushed)
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

    use super::{AFTER_THE_END, PATIENCE, Patient};

    #[tokio::test(start_paused = true)]
    async fn who_has_sent_all_still_gets_an_answer_and_is_not_waited_for_long() {
        let (near, mut far) = tokio::io::duplex(64);
        let mut patient = Patient::new(near);
        far.write_all(b"a request").await.unwrap();
        far.shutdown().await.unwrap();
        let mut request = [0; 64];
        assert_eq!(patient.read(&mut request).await.unwrap(), 9);
        let began = Instant::now();
        tokio::select! {
            biased;
            _ = patient.read(&mut request) => panic!("the end is told before there was time to answer"),
            () = sleep(AFTER_THE_END / 2) => {}
        }
        patient.write_all(b"an answer").await.unwrap();
        let mut answer = [0; 9];
        far.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"an answer");
        assert_eq!(patient.read(&mut request).await.unwrap(), 0);
        assert!(began.elapsed() >= AFTER_THE_END);
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_given_up_and_who_takes_little_is_not() {
        let (near, mut far) = tokio::io::duplex(8);
        let mut patient = Patient::new(near);
        let slow = async {
            let mut byte = [0];
            for _ in 0..100 {
                sleep(PATIENCE / 2).await;
                far.read_exact(&mut byte).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(patient.write_all(&[7; 100]), slow);
        written.unwrap();
        let before = Instant::now();
        let error = patient.write_all(&[7; 100]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(before.elapsed() >= PATIENCE);
        drop(far);
    }
}
