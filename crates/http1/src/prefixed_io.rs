//! A stream that first yields bytes that were already read from it, as hyper's `Rewind` does.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream with bytes that were already read from it.
#[derive(Debug)]
pub struct PrefixedIo<S> {
    prefix: Bytes,
    stream: S,
}

impl<S> PrefixedIo<S> {
    /// Creates a stream that yields `prefix`, then the data of `stream`.
    pub fn new(prefix: Bytes, stream: S) -> Self {
        Self { prefix, stream }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PrefixedIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let length = self.prefix.len().min(buf.remaining());
        if length == 0 {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        if let Some(part) = self.prefix.get(..length) {
            buf.put_slice(part);
        }
        self.prefix.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PrefixedIo<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tokio::io::AsyncReadExt as _;

    use super::PrefixedIo;

    #[tokio::test]
    async fn what_was_read_comes_before_the_rest() {
        let mut stream = PrefixedIo::new(Bytes::from("what was "), &b"read"[..]);
        let mut few = [0; 4];
        stream.read_exact(&mut few).await.unwrap();
        let mut rest = String::new();
        stream.read_to_string(&mut rest).await.unwrap();
        assert_eq!((&few, rest.as_str()), (b"what", " was read"));
    }
}
