//! Pinned connections: each one is served on the runtime it was assigned to.

pub(super) mod hyper_connection;
mod message_budget;
mod request_body;

use std::sync::Arc;

use host::bounded_listener::{BoundedListener, register_with_current_runtime};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::service::Routes;

use super::ToolService;

/// Maximum number of connections; further ones wait in the kernel's accept queue.
const MAX_CONNECTIONS: usize = 10_000;

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
    let connections = TaskTracker::new();
    let listener = BoundedListener::new(listener, MAX_CONNECTIONS);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept_connection() => accepted,
            () = stop.cancelled() => break,
        };
        let (handlers, stop, assignment) = (Arc::clone(&handlers), stop.clone(), assign_runtime());
        let runtime = assignment.runtime.clone();
        let connection_task = async move {
            if let Err(error) = serve_on_runtime(accepted.stream, handlers, stop).await {
                tracing::debug!(error, "a gRPC connection ended");
            }
            drop((accepted.permit, assignment.guard));
        };
        drop(runtime.spawn(connections.track_future(connection_task)));
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

async fn serve_on_runtime(
    stream: TcpStream,
    handlers: Arc<RequestHandlers>,
    stop: CancellationToken,
) -> Result<(), String> {
    let stream = register_with_current_runtime(stream).map_err(|error| error.to_string())?;
    hyper_connection::serve_stream(stream, handlers, stop).await
}
