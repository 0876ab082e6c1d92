//! Connections that can be closed from outside, when the certificate of their node is revoked.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Closes all connections that were created with it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Revocation(Arc<RevocationState>);

#[derive(Debug, Default)]
struct RevocationState {
    is_revoked: AtomicBool,
    token: CancellationToken,
    /// Number of open connections.
    open_connections: AtomicUsize,
}

impl Revocation {
    /// Closes all connections, and later ones as soon as they are created.
    pub(crate) fn revoke(&self) {
        self.0.is_revoked.store(true, Ordering::Release);
        self.0.token.cancel();
    }

    /// Whether a connection is open.
    pub(crate) fn has_open_connections(&self) -> bool {
        self.0.open_connections.load(Ordering::Acquire) > 0
    }
}

/// A connection that fails when it is revoked.
pub(crate) struct RevocableStream<S> {
    inner: S,
    state: Arc<RevocationState>,
    cancelled: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl<S> RevocableStream<S> {
    pub(crate) fn new(inner: S, revocation: &Revocation) -> Self {
        let state = Arc::clone(&revocation.0);
        state.open_connections.fetch_add(1, Ordering::AcqRel);
        let cancelled = Box::pin(state.token.clone().cancelled_owned());
        Self { inner, state, cancelled }
    }

    fn check_revoked(&self) -> io::Result<()> {
        if self.state.is_revoked.load(Ordering::Acquire) { Err(revoked_error()) } else { Ok(()) }
    }
}

impl<S> Drop for RevocableStream<S> {
    fn drop(&mut self) {
        self.state.open_connections.fetch_sub(1, Ordering::AcqRel);
    }
}

fn revoked_error() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the node's certificate was revoked")
}

impl<S: AsyncRead + Unpin> AsyncRead for RevocableStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check_revoked()?;
        let read = Pin::new(&mut self.inner).poll_read(cx, buf);
        // While no data arrives, a revocation wakes the task as well.
        if read.is_pending() && self.cancelled.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(revoked_error()));
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
        self.check_revoked()?;
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
        self.check_revoked()?;
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
