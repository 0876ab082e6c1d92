//! TLS connections for tonic: accepted ones, and reverse connections that a node dials and is then
//! called over.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{Stream, stream};
use host::bounded_listener::{AcceptedConnection, BoundedListener};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::task::TaskTracker;
use tonic::transport::server::Connected;

use crate::client::{ConnectFuture, IoStream};
use crate::tls::send_greeting;

/// Maximum number of concurrent TLS handshakes; further connections wait to be accepted.
const MAX_CONCURRENT_HANDSHAKES: usize = 64;
/// Timeout of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Backoff between connection attempts.
const REDIAL_BACKOFF_MIN: Duration = Duration::from_millis(200);
const REDIAL_BACKOFF_MAX: Duration = Duration::from_secs(5);

/// Accepts TLS connections until the returned stream is dropped.
pub(super) fn accept_tls(
    listener: TcpListener,
    config: Arc<ServerConfig>,
) -> impl Stream<Item = io::Result<TlsConnection<TcpStream>>> {
    let (sender, mut receiver) = mpsc::channel(MAX_CONCURRENT_HANDSHAKES);
    // All of them end with the stream.
    let tasks = TaskTracker::new();
    let accept_loop = accept_handshakes(listener, TlsAcceptor::from(config), sender, tasks.clone());
    drop(tasks.spawn(accept_loop));
    futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx))
}

async fn accept_handshakes(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    ready: mpsc::Sender<io::Result<TlsConnection<TcpStream>>>,
    tasks: TaskTracker,
) {
    let listener = BoundedListener::new(listener, MAX_CONCURRENT_HANDSHAKES);
    loop {
        let AcceptedConnection { stream, peer, permit } = tokio::select! {
            accepted = listener.accept_connection() => accepted,
            () = ready.closed() => return,
        };
        let (acceptor, ready) = (acceptor.clone(), ready.clone());
        drop(tasks.spawn(async move {
            let _permit = permit;
            match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => {
                    drop(ready.send(Ok(TlsConnection { stream, _closed: None })).await)
                }
                Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake failed"),
                Err(_) => tracing::debug!(%peer, "TLS handshake timed out"),
            }
        }));
    }
}

/// Opens reverse connections, one at a time: dials the server, sends the greeting of the node and
/// accepts the TLS handshake of the server. Reconnects when the connection has ended.
pub(super) fn reverse_incoming(
    connect: Arc<dyn Fn() -> ConnectFuture + Send + Sync>,
    node_id: String,
    config: Arc<ServerConfig>,
) -> impl Stream<Item = io::Result<TlsConnection<Box<dyn IoStream>>>> {
    let acceptor = TlsAcceptor::from(config);
    let last: Option<oneshot::Receiver<()>> = None;
    stream::unfold((connect, node_id, acceptor, last), |(connect, node_id, acceptor, last)| async {
        if let Some(last) = last {
            drop(last.await);
        }
        let mut pause = REDIAL_BACKOFF_MIN;
        loop {
            match dial_once(connect.as_ref(), &node_id, &acceptor).await {
                Ok(stream) => {
                    tracing::info!("connected; the server calls over this connection");
                    let (gone, last) = oneshot::channel();
                    let shaken = TlsConnection { stream, _closed: Some(gone) };
                    return Some((Ok(shaken), (connect, node_id, acceptor, Some(last))));
                }
                Err(error) => tracing::warn!(%error, "connection failed; retrying"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(REDIAL_BACKOFF_MAX);
        }
    })
}

async fn dial_once(
    connect: &(dyn Fn() -> ConnectFuture + Send + Sync),
    node_id: &str,
    acceptor: &TlsAcceptor,
) -> io::Result<TlsStream<Box<dyn IoStream>>> {
    let mut stream = connect().await?;
    let handshake = async {
        send_greeting(&mut stream, node_id).await?;
        acceptor.accept(stream).await
    };
    let timeout_error = |_| io::Error::new(io::ErrorKind::TimedOut, "TLS handshake timed out");
    tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await.map_err(timeout_error)?
}

/// An accepted TLS connection.
pub(super) struct TlsConnection<S> {
    stream: TlsStream<S>,
    /// Signals the drop of a reverse connection.
    _closed: Option<oneshot::Sender<()>>,
}

impl<S> Connected for TlsConnection<S> {
    type ConnectInfo = ();
    fn connect_info(&self) {}
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsConnection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsConnection<S> {
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
