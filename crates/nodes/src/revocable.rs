//! Connections to a node that can be cut from outside: those of a node whose certificate is revoked.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Cuts all connections that were made with it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Revocation(Arc<State>);

#[derive(Debug, Default)]
struct State {
    revoked: AtomicBool,
    token: CancellationToken,
    /// Connections that are open.
    open: AtomicUsize,
}

impl Revocation {
    /// Cuts them now, and those that are made later at once.
    pub(crate) fn revoke(&self) {
        self.0.revoked.store(true, Ordering::Release);
        self.0.token.cancel();
    }

    /// Whether a connection is open.
    pub(crate) fn has_open(&self) -> bool {
        self.0.open.load(Ordering::Acquire) > 0
    }
}

/// A connection that ends when it is revoked.
pub(crate) struct RevocableStream<S> {
    inner: S,
    state: Arc<State>,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl<S> RevocableStream<S> {
    pub(crate) fn new(inner: S, revocation: &Revocation) -> Self {
        let state = Arc::clone(&revocation.0);
        state.open.fetch_add(1, Ordering::AcqRel);
        let cut = Box::pin(state.token.clone().cancelled_owned());
        Self { inner, state, cut }
    }

    fn check(&self) -> io::Result<()> {
        if self.state.revoked.load(Ordering::Acquire) { Err(revoked()) } else { Ok(()) }
    }
}

impl<S> Drop for RevocableStream<S> {
    fn drop(&mut self) {
        self.state.open.fetch_sub(1, Ordering::AcqRel);
    }
}

fn revoked() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the node's certificate was revoked")
}

impl<S: AsyncRead + Unpin> AsyncRead for RevocableStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check()?;
        let read = Pin::new(&mut self.inner).poll_read(cx, buf);
        // Nothing comes: the task is woken by a revocation as well.
        if read.is_pending() && self.cut.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(revoked()));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for RevocableStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
