//! Serves HTTP connections: eviction, header timeout and graceful shutdown.

mod fast_path;

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use host::bounded_listener::{AcceptedConnection, BoundedListener, register_with_current_runtime};
use http1::{PrefixedIo, TimeoutStream};
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::ConnectionWorkers;
use crate::http_service::HttpService;

pub(crate) use fast_path::McpRequestHead;

/// Longest time for a client to send a request head.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time for connections to finish after the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// Accepts and serves connections on `workers` until `stop` fires, then drains them for up to 30 s.
pub async fn serve_http(
    listener: TcpListener,
    service: impl Into<HttpService>,
    workers: &ConnectionWorkers,
    stop: CancellationToken,
) {
    let service = service.into();
    let connections = TaskTracker::new();
    let listener = BoundedListener::with_permits(listener, workers.connection_permits());
    loop {
        let AcceptedConnection { stream, permit, .. } = tokio::select! {
            accepted = listener.accept_connection() => accepted,
            () = stop.cancelled() => break,
        };
        let (service, stop, assignment) = (service.clone(), stop.clone(), workers.assign_worker());
        let runtime = assignment.runtime.clone();
        let connection = workers.pending_connections().register_connection();
        let poll_times = service.poll_times();
        let serving = async move {
            let evicted = connection.eviction_token();
            match register_with_current_runtime(stream) {
                Ok(stream) => tokio::select! {
                    () = connection.run_in_scope(serve_connection(stream, service, stop)) => {}
                    () = evicted.cancelled() => {
                        tracing::debug!("unauthenticated connection evicted");
                    }
                },
                Err(error) => {
                    tracing::warn!(%error, "cannot register a connection with its worker");
                }
            }
            drop((permit, assignment));
        };
        // Boxed, because a future within others is stored once for each.
        let serving = Box::pin(serving);
        let serving = async move {
            match poll_times {
                Some(times) => times.observe_task(serving).await,
                None => serving.await,
            }
        };
        drop(runtime.spawn(connections.track_future(serving)));
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(DRAIN_TIMEOUT, connections.wait()).await.is_err() {
        tracing::warn!(
            left = connections.len(),
            "drain timeout reached; remaining connections closed"
        );
    }
}

async fn serve_connection(stream: TcpStream, front: HttpService, stop: CancellationToken) {
    let stream = TimeoutStream::new(stream);
    let stream = match front.fast_path_state() {
        Some(doors) => match fast_path::serve_fast_path(stream, doors, &stop).await {
            Some(left) => left,
            None => return,
        },
        None => PrefixedIo::new(Bytes::new(), stream),
    };
    let service = service_fn(|request| front.handle_request(request).map(Ok::<_, Infallible>));
    let connection = Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
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
