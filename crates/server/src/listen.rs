//! Listening: connections bounded in number and in the time their headers take, and a graceful end.

mod fast_path;

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http1::{PrefixedIo, TimeoutStream};
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Workers;
use crate::front::Front;

pub(crate) use fast_path::Head;

/// The longest the head of a request may take.
const HEADERS: Duration = Duration::from_secs(10);
/// The longest connections may take to end once the server stops.
const DRAIN: Duration = Duration::from_secs(30);

/// Serves `front` on `workers` until `stop` fires; then finishes what runs, for up to 30 s.
pub async fn listen(
    listener: TcpListener,
    front: impl Into<Front>,
    workers: &Workers,
    stop: CancellationToken,
) {
    let front = front.into();
    let connections = TaskTracker::new();
    loop {
        // Past the most there may be, new ones wait in the kernel.
        let place = tokio::select! {
            place = workers.connection_permit() => place,
            () = stop.cancelled() => break,
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        match accepted {
            Ok((stream, _)) => {
                let (front, stop, seat) = (front.clone(), stop.clone(), workers.seat());
                let on = seat.on.clone();
                let connection = workers.pending().enter();
                let serving = async move {
                    let evicted = connection.evicted();
                    match moved(stream) {
                        Ok(stream) => tokio::select! {
                            () = connection.scope(serve(stream, front, stop)) => {}
                            () = evicted.cancelled() => {
                                tracing::debug!("a connection without a credential made room");
                            }
                        },
                        Err(error) => tracing::warn!(%error, "a connection was not taken over"),
                    }
                    drop((place, seat));
                };
                drop(on.spawn(connections.track_future(serving)));
            }
            Err(error) => {
                // Out of descriptors, most likely: without a pause this would be a busy loop.
                tracing::warn!(%error, "no connection taken");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(DRAIN, connections.wait()).await.is_err() {
        tracing::warn!(left = connections.len(), "connections cut at the end of the drain");
    }
}

/// To the runtime of the thread that calls: a socket is woken by the one it was registered with.
fn moved(stream: TcpStream) -> io::Result<TcpStream> {
    TcpStream::from_std(stream.into_std()?)
}

async fn serve(stream: TcpStream, front: Front, stop: CancellationToken) {
    // A small answer must not wait for the acknowledgement of the one before.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    let stream = TimeoutStream::new(stream);
    let stream = match front.fast_path() {
        Some(doors) => match fast_path::serve(stream, doors, &stop).await {
            Some(left) => left,
            None => return,
        },
        None => PrefixedIo::new(Bytes::new(), stream),
    };
    let service = service_fn(|request| front.answer(request).map(Ok::<_, Infallible>));
    let connection = Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .max_headers(64)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}
