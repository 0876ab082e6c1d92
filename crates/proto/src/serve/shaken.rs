//! Connections whose other side has shown its certificate.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::task::TaskTracker;
use tonic::transport::server::Connected;

/// Connections that shake hands at once; more wait to be accepted.
const SHAKING: usize = 64;
/// Time for one.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long nothing is accepted after it failed, as where files ran out.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts for as long as somebody takes what comes.
pub(super) fn shaken(
    listener: TcpListener,
    config: Arc<ServerConfig>,
) -> impl Stream<Item = io::Result<Shaken>> {
    let (sender, mut receiver) = mpsc::channel(SHAKING);
    // All of them end with the stream.
    let tasks = TaskTracker::new();
    let accepting = accept(listener, TlsAcceptor::from(config), (sender, tasks.clone()));
    drop(tasks.spawn(accepting));
    futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx))
}

async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    (ready, tasks): (mpsc::Sender<io::Result<Shaken>>, TaskTracker),
) {
    let shaking = Arc::new(Semaphore::new(SHAKING));
    loop {
        let Ok(permit) = Arc::clone(&shaking).acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = ready.closed() => return,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let (acceptor, ready) = (acceptor.clone(), ready.clone());
        drop(tasks.spawn(async move {
            let _permit = permit;
            // What fails here concerns that one alone.
            if stream.set_nodelay(true).is_err() {
                return;
            }
            match tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => drop(ready.send(Ok(Shaken(stream))).await),
                Ok(Err(error)) => tracing::debug!(%peer, %error, "a caller is not let in"),
                Err(_) => tracing::debug!(%peer, "a caller shook hands for too long"),
            }
        }));
    }
}

/// One of them.
pub(super) struct Shaken(TlsStream<TcpStream>);

impl Connected for Shaken {
    type ConnectInfo = ();
    fn connect_info(&self) {}
}

impl AsyncRead for Shaken {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Shaken {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }
}
