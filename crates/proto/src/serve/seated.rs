//! Connections that are served where each of them has its seat: on a runtime that it never leaves.

pub(super) mod connection;
mod message_budget;
mod request_body;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::service::Routes;

use super::Tools;

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

/// Who answers.
pub(super) struct Ways {
    pub(super) tools: Arc<dyn Tools>,
    /// All services.
    pub(super) routes: Routes,
}

/// Serves until `stop` fires, and then until all connections have ended.
pub(super) async fn serve(
    ways: Arc<Ways>,
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
        let (ways, stop, Seat { on, held }) = (Arc::clone(&ways), stop.clone(), seat());
        let serving = async move {
            if let Err(error) = one(stream, ways, stop).await {
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
    ways: Arc<Ways>,
    stop: CancellationToken,
) -> Result<(), String> {
    // A socket is woken by the runtime that it was registered with.
    let stream = TcpStream::from_std(stream).map_err(|error| error.to_string())?;
    connection::serve(stream, ways, stop).await
}
