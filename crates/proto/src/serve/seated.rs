//! Connections that are served where each of them has its seat: on a runtime that it never leaves.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::service::Routes;

use super::{ALIVE, Door, STREAMS, short};

/// Connections at once; past that, new ones wait in the kernel.
const CONNECTIONS: usize = 10_000;
/// How long nothing is accepted after it failed, as where files ran out.
const PAUSE: Duration = Duration::from_millis(100);

/// Where a connection is served, for as long as this is held.
pub struct Seat {
    /// On which runtime.
    pub on: Handle,
    /// What is dropped when the connection has ended.
    pub held: Box<dyn Send>,
}

impl std::fmt::Debug for Seat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seat")
    }
}

/// Serves until `stop` fires, and then until all connections have ended.
pub(super) async fn serve(
    (door, routes): (Door, Routes),
    listener: TcpListener,
    seat: &(dyn Fn() -> Seat + Send + Sync),
    stop: CancellationToken,
) {
    let (connections, places) = (TaskTracker::new(), Arc::new(Semaphore::new(CONNECTIONS)));
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            () = stop.cancelled() => break,
        };
        let Ok((stream, place)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let (door, routes, stop, Seat { on, held }) =
            (door.clone(), routes.clone(), stop.clone(), seat());
        let serving = async move {
            if let Err(error) = one(stream, (door, routes), stop).await {
                tracing::debug!(error, "a gRPC connection ended");
            }
            drop((place, held));
        };
        drop(on.spawn(connections.track_future(serving)));
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(std::net::TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream.into_std()?, place))
}

async fn one(
    stream: std::net::TcpStream,
    (door, routes): (Door, Routes),
    stop: CancellationToken,
) -> Result<(), String> {
    // A socket is woken by the runtime that it was registered with.
    let stream = TcpStream::from_std(stream).map_err(|error| error.to_string())?;
    let service = service_fn(move |request| short::answer(door.clone(), routes.clone(), request));
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(ALIVE)
        .keep_alive_timeout(ALIVE)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    ended.map_err(|error| error.to_string())
}
