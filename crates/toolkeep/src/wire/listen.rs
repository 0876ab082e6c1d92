//! The sockets.

use std::net::SocketAddr;

use server::Doors;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::cli::failure::{Exit, Failure};

/// The configuration has refused addresses that others can reach, unless TLS ends in front of them.
pub(super) async fn bind(
    address: Option<SocketAddr>,
    flag: &str,
) -> Result<Option<TcpListener>, Failure> {
    let Some(address) = address else { return Ok(None) };
    let bound = TcpListener::bind(address).await.map_err(|error| {
        Failure::new(Exit::NoServer, format!("cannot listen on {address}: {error}"))
            .fix(format!("choose another address with `{flag}`; port 0 takes a free one"))
    });
    bound.map(Some)
}

/// The gRPC door, where there is one.
pub(super) async fn grpc_door(
    doors: &Doors,
    listener: Option<TcpListener>,
    stop: CancellationToken,
) {
    let Some(listener) = listener else { return };
    if let Err(error) = server::listen_grpc(doors, listener, stop).await {
        tracing::error!(%error, "the gRPC door ended");
    }
}
