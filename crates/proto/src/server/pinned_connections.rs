//! Pinned connections: each one is served on the runtime it was assigned to.

pub(super) mod hyper_connection;
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

use super::ToolService;

/// Maximum number of connections; further ones wait in the kernel's accept queue.
const MAX_CONNECTIONS: usize = 10_000;
/// Pause after a failed accept, such as without free file descriptors.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// The runtime that a connection is assigned to, and a guard of that assignment.
pub struct RuntimeAssignment {
    /// The runtime that serves the connection.
    pub runtime: Handle,
    /// A guard that is dropped when the connection has ended.
    pub guard: Box<dyn Send>,
}

impl std::fmt::Debug for RuntimeAssignment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RuntimeAssignment")
    }
}

/// The handlers of requests.
pub(super) struct RequestHandlers {
    pub(super) tool_service: Arc<dyn ToolService>,
    /// The tonic services.
    pub(super) routes: Routes,
}

/// Serves connections until `stop` fires and all of them have ended.
pub(super) async fn serve_connections(
    handlers: Arc<RequestHandlers>,
    listener: TcpListener,
    assign_runtime: &(dyn Fn() -> RuntimeAssignment + Send + Sync),
    stop: CancellationToken,
) {
    let (connections, permits) = (TaskTracker::new(), Arc::new(Semaphore::new(MAX_CONNECTIONS)));
    loop {
        let accepted = tokio::select! {
            accepted = accept_connection(&listener, &permits) => accepted,
            () = stop.cancelled() => break,
        };
        let Ok((stream, place)) = accepted else {
            tokio::time::sleep(ACCEPT_BACKOFF).await;
            continue;
        };
        let (ways, stop, RuntimeAssignment { runtime: on, guard: held }) =
            (Arc::clone(&handlers), stop.clone(), assign_runtime());
        let connection_task = async move {
            if let Err(error) = serve_on_runtime(stream, ways, stop).await {
                tracing::debug!(error, "a gRPC connection ended");
            }
            drop((place, held));
        };
        drop(on.spawn(connections.track_future(connection_task)));
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

async fn accept_connection(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> io::Result<(std::net::TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let permit = Arc::clone(permits).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream.into_std()?, permit))
}

async fn serve_on_runtime(
    stream: std::net::TcpStream,
    handlers: Arc<RequestHandlers>,
    stop: CancellationToken,
) -> Result<(), String> {
    // A socket wakes the runtime that it was registered with.
    let stream = TcpStream::from_std(stream).map_err(|error| error.to_string())?;
    hyper_connection::serve_stream(stream, handlers, stop).await
}
