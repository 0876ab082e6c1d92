//! The sockets.

use std::net::SocketAddr;
use std::time::Duration;

use egress::HttpStack;
use intake::Intake;
use server::{Front, Workers};
use server_mcp::McpDoors;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tool::Secret;

use super::cluster::Cluster;
use super::{App, fault};
use cli_core::failure::{Exit, Failure};
use cli_core::wiring::{Listening, Offers, Places};

/// How long a server that listens waits for its sources before it says so. One that takes longer comes
/// when it comes: it does not hold up the others.
const SETTLE: Duration = Duration::from_secs(1);

/// What the owner of a key may call.
pub(crate) fn offers(doors: &McpDoors, stop: &CancellationToken) -> Offers {
    let (doors, stop) = (doors.clone(), stop.clone());
    Offers::new(move |key| {
        let tools = server::tools_of(&doors, key, stop.clone());
        tools.map_err(fault("the key that calls run with"))
    })
}

/// The threads for connections, and as many connections as there are descriptors for. To be called before
/// anything is dialled or started.
pub(crate) fn workers(listens: bool) -> Result<Workers, Failure> {
    let shares = host::descriptors::raise().unwrap_or_else(|(shares, error)| {
        tracing::warn!(%error, limit = shares.limit, "the soft limit of file descriptors stays");
        shares
    });
    if !listens {
        return Ok(Workers::here());
    }
    tracing::info!(
        limit = shares.limit,
        clients = shares.clients,
        http_sources = shares.http_sources(),
        programs = shares.programs(),
        "file descriptors, and what fits"
    );
    let threads = Workers::start().map_err(fault("the threads for connections"))?;
    Ok(threads.with_connections(shares.clients))
}

/// Waits for the sources, and not long for those that take long.
pub(crate) async fn settled(intake: &Intake) {
    drop(tokio::time::timeout(SETTLE, intake.settled()).await);
}

/// The configuration has refused addresses that others can reach, unless TLS ends in front of them.
pub(crate) async fn bind(
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

/// The sockets beside the one for HTTP.
pub(crate) struct Beside {
    grpc: Option<TcpListener>,
    plain: Option<(TcpListener, Secret)>,
    nodes: Option<TcpListener>,
    old_nodes: Option<(TcpListener, Secret)>,
}

impl Beside {
    pub(crate) async fn bind(places: &Places) -> Result<Self, Failure> {
        let grpc = bind(places.grpc, "--grpc-listen").await?;
        let nodes = bind(places.nodes, "--node-listen").await?;
        let keyed = async |place: Option<&(SocketAddr, Secret)>, flag| {
            let listener = bind(place.map(|(address, _)| *address), flag).await?;
            Ok::<_, Failure>(listener.zip(place.map(|(_, key)| key.clone())))
        };
        let plain = keyed(places.plain.as_ref(), "--plain-listen").await?;
        let old_nodes = keyed(places.old_nodes.as_ref(), "--old-node-listen").await?;
        Ok(Self { grpc, plain, nodes, old_nodes })
    }

    /// Where each of them listens.
    pub(crate) fn addresses(&self) -> Listening {
        let of = |listener: &TcpListener| listener.local_addr().ok();
        Listening {
            grpc: self.grpc.as_ref().and_then(of),
            plain: self.plain.as_ref().and_then(|(listener, _)| of(listener)),
            nodes: self.nodes.as_ref().and_then(of),
            old_nodes: self.old_nodes.as_ref().and_then(|(listener, _)| of(listener)),
        }
    }

    /// Serves on all of them.
    pub(crate) async fn serve(
        self,
        doors: &McpDoors,
        cluster: &Cluster,
        (workers, stop): (&Workers, CancellationToken),
    ) {
        let grpc = async {
            let Some(listener) = self.grpc else { return };
            told(server::listen_grpc(doors, listener, None, (workers, stop.clone())).await);
        };
        let plain = async {
            let Some((listener, key)) = self.plain else { return };
            told(server::listen_grpc(doors, listener, Some(&key), (workers, stop.clone())).await);
        };
        let nodes = async {
            let Some(listener) = self.nodes else { return };
            tokio::select! {
                () = cluster.accept(listener) => {}
                () = stop.cancelled() => {}
            }
        };
        let old_nodes = async {
            let Some((listener, key)) = self.old_nodes else { return };
            match server::old_nodes(doors, &key) {
                Ok(router) => {
                    server::listen(listener, router, &Workers::here(), stop.clone()).await;
                }
                Err(error) => tracing::error!(error, "no node registers without a key"),
            }
        };
        tokio::join!(grpc, plain, nodes, old_nodes);
    }
}

fn told(ended: std::io::Result<()>) {
    if let Err(error) = ended {
        tracing::error!(%error, "the gRPC door ended");
    }
}

/// Serves the connections of all listeners until the server is stopped.
pub(crate) async fn serve(
    app: &App,
    (listener, beside): (Option<TcpListener>, Beside),
    http: HttpStack,
    workers: &Workers,
    stop: CancellationToken,
) {
    let Some(listener) = listener else { return stop.cancelled().await };
    let front = match http {
        HttpStack::Fast => Front::new(&app.doors),
        HttpStack::Standard => Front::new(&app.doors).without_fast_path(),
    };
    let streams = async {
        stop.cancelled().await;
        app.doors.close();
    };
    let serve = server::listen(listener, front, workers, stop.clone());
    let beside = beside.serve(&app.doors, &app.workshop.cluster, (workers, stop.clone()));
    tokio::join!(serve, streams, beside);
}
