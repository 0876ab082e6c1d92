//! Connections whose other side has shown its certificate: those that came, and those that this side
//! has dialled for the other one to call over.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{Stream, stream};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::task::TaskTracker;
use tonic::transport::server::Connected;

use crate::connect::{Dialled, Duplex};
use crate::tls::greet;

/// Connections that shake hands at once; more wait to be accepted.
const SHAKING: usize = 64;
/// Time for one.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long nothing is accepted after it failed, as where files ran out.
const PAUSE: Duration = Duration::from_millis(100);
/// Between two tries to dial: the first, and the longest.
const AGAIN: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// Accepts for as long as somebody takes what comes.
pub(super) fn shaken(
    listener: TcpListener,
    config: Arc<ServerConfig>,
) -> impl Stream<Item = io::Result<Shaken<TcpStream>>> {
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
    (ready, tasks): (mpsc::Sender<io::Result<Shaken<TcpStream>>>, TaskTracker),
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
                Ok(Ok(stream)) => drop(ready.send(Ok(Shaken { stream, _gone: None })).await),
                Ok(Err(error)) => tracing::debug!(%peer, %error, "a caller is not let in"),
                Err(_) => tracing::debug!(%peer, "a caller shook hands for too long"),
            }
        }));
    }
}

/// Dials, says which node this is, and lets the other side shake hands as the one that calls: one
/// connection at a time, and another one as soon as it is gone.
pub(super) fn dialled(
    dial: Arc<dyn Fn() -> Dialled + Send + Sync>,
    node_id: String,
    config: Arc<ServerConfig>,
) -> impl Stream<Item = io::Result<Shaken<Box<dyn Duplex>>>> {
    let acceptor = TlsAcceptor::from(config);
    let last: Option<oneshot::Receiver<()>> = None;
    stream::unfold((dial, node_id, acceptor, last), |(dial, node_id, acceptor, last)| async {
        if let Some(last) = last {
            drop(last.await);
        }
        let mut pause = AGAIN.0;
        loop {
            match one(dial.as_ref(), &node_id, &acceptor).await {
                Ok(stream) => {
                    tracing::info!("connected; the server calls over this connection");
                    let (gone, last) = oneshot::channel();
                    let shaken = Shaken { stream, _gone: Some(gone) };
                    return Some((Ok(shaken), (dial, node_id, acceptor, Some(last))));
                }
                Err(error) => tracing::warn!(%error, "not connected; tried again"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(AGAIN.1);
        }
    })
}

async fn one(
    dial: &(dyn Fn() -> Dialled + Send + Sync),
    node_id: &str,
    acceptor: &TlsAcceptor,
) -> io::Result<TlsStream<Box<dyn Duplex>>> {
    let mut stream = dial().await?;
    let shaken = async {
        greet(&mut stream, node_id).await?;
        acceptor.accept(stream).await
    };
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the server does not shake hands");
    tokio::time::timeout(PATIENCE, shaken).await.map_err(late)?
}

/// One of them.
pub(super) struct Shaken<S> {
    stream: TlsStream<S>,
    /// Heard of where it is dropped.
    _gone: Option<oneshot::Sender<()>>,
}

impl<S> Connected for Shaken<S> {
    type ConnectInfo = ();
    fn connect_info(&self) {}
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Shaken<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Shaken<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
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
}
