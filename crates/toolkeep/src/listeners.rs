//! The listening sockets: HTTP, gRPC, node connections and the listeners for clients without keys.

use std::net::SocketAddr;
use std::time::Duration;

use egress::HttpStack;
use intake::SourceSupervisor;
use server::{ConnectionWorkers, HttpService};
use server_mcp::McpServerState;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tool::Secret;

use super::node_cluster::NodeCluster;
use super::{App, startup_error};
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::server_launcher::{BoundAddresses, ListenerAddresses, ToolServerFactory};
use config::ServerConfig;

/// Longest wait for sources before the server reports that it listens. Slower sources are added
/// when they are ready.
const MAX_SOURCE_WAIT: Duration = Duration::from_secs(1);

/// Returns the factory of tool services that act with the rights of one key.
pub(crate) fn tool_server_factory(
    state: &McpServerState,
    stop: &CancellationToken,
) -> ToolServerFactory {
    let (doors, stop) = (state.clone(), stop.clone());
    ToolServerFactory::new(move |key| {
        let tools = server::key_bound_service(&doors, key, stop.clone());
        tools.map_err(startup_error("the key that calls run with"))
    })
}

/// Starts the connection workers, with as many connections as the file descriptor limit permits.
/// Call it before any connection is opened or process started.
pub(crate) fn start_workers(listens: bool) -> Result<ConnectionWorkers, CommandError> {
    let budget = host::descriptors::raise_soft_limit().unwrap_or_else(|(shares, error)| {
        tracing::warn!(%error, limit = shares.limit, "cannot raise the soft limit of file descriptors");
        shares
    });
    if !listens {
        return Ok(ConnectionWorkers::on_current_runtime());
    }
    tracing::info!(
        limit = budget.limit,
        clients = budget.clients,
        http_sources = budget.http_sources(),
        programs = budget.programs(),
        "file descriptor limit and the connections it permits"
    );
    let threads =
        ConnectionWorkers::start_threads().map_err(startup_error("the threads for connections"))?;
    Ok(threads.with_max_connections(budget.clients))
}

/// Waits for the sources to list their tools, up to a limit.
pub(crate) async fn wait_for_sources(supervisor: &SourceSupervisor) {
    drop(tokio::time::timeout(MAX_SOURCE_WAIT, supervisor.wait_until_listed()).await);
}

/// Binds a listener. The configuration already rejected public addresses without TLS in front of
/// them.
pub(crate) async fn bind_listener(
    address: Option<SocketAddr>,
    flag: &str,
) -> Result<Option<TcpListener>, CommandError> {
    let Some(address) = address else { return Ok(None) };
    let bound = TcpListener::bind(address).await.map_err(|error| {
        CommandError::new(
            ExitStatus::ServerUnavailable,
            format!("cannot listen on {address}: {error}"),
        )
        .with_help(format!("choose another address with `{flag}`; port 0 selects a free port"))
    });
    bound.map(Some)
}

/// All listeners except the one for HTTP.
pub(crate) struct ExtraListeners {
    grpc: Option<TcpListener>,
    plaintext_grpc: Option<(TcpListener, Secret)>,
    nodes: Option<TcpListener>,
    legacy_nodes: Option<(TcpListener, Secret)>,
}

impl ExtraListeners {
    pub(crate) async fn bind_all(addresses: &ListenerAddresses) -> Result<Self, CommandError> {
        let grpc = bind_listener(addresses.grpc, "--grpc-listen").await?;
        let nodes = bind_listener(addresses.nodes, "--node-listen").await?;
        let bind_with_key = async |place: Option<&(SocketAddr, Secret)>, flag| {
            let listener = bind_listener(place.map(|(address, _)| *address), flag).await?;
            Ok::<_, CommandError>(listener.zip(place.map(|(_, key)| key.clone())))
        };
        let plaintext_grpc =
            bind_with_key(addresses.plaintext_grpc.as_ref(), "--plain-listen").await?;
        let legacy_nodes =
            bind_with_key(addresses.legacy_nodes.as_ref(), "--old-node-listen").await?;
        Ok(Self { grpc, plaintext_grpc, nodes, legacy_nodes })
    }

    /// Returns the local address of each listener.
    pub(crate) fn bound_addresses(&self) -> BoundAddresses {
        let of = |listener: &TcpListener| listener.local_addr().ok();
        BoundAddresses {
            grpc: self.grpc.as_ref().and_then(of),
            plaintext_grpc: self.plaintext_grpc.as_ref().and_then(|(listener, _)| of(listener)),
            nodes: self.nodes.as_ref().and_then(of),
            legacy_nodes: self.legacy_nodes.as_ref().and_then(|(listener, _)| of(listener)),
        }
    }

    /// Serves all listeners until the server stops.
    pub(crate) async fn serve_all(
        self,
        state: &McpServerState,
        node_cluster: &NodeCluster,
        workers: &ConnectionWorkers,
        stop: CancellationToken,
    ) {
        let grpc = async {
            let Some(listener) = self.grpc else { return };
            log_listener_error(
                server::serve_grpc(state, listener, None, workers, stop.clone()).await,
            );
        };
        let plaintext_grpc = async {
            let Some((listener, key)) = self.plaintext_grpc else { return };
            log_listener_error(
                server::serve_grpc(state, listener, Some(&key), workers, stop.clone()).await,
            );
        };
        let nodes = async {
            let Some(listener) = self.nodes else { return };
            tokio::select! {
                () = node_cluster.accept_nodes(listener) => {}
                () = stop.cancelled() => {}
            }
        };
        let legacy_nodes = async {
            let Some((listener, key)) = self.legacy_nodes else { return };
            match server::legacy_node_router(state, &key) {
                Ok(router) => {
                    server::serve_http(
                        listener,
                        router,
                        &ConnectionWorkers::on_current_runtime(),
                        stop.clone(),
                    )
                    .await;
                }
                Err(error) => tracing::error!(error, "cannot serve the listener for legacy nodes"),
            }
        };
        tokio::join!(grpc, plaintext_grpc, nodes, legacy_nodes);
    }
}

fn log_listener_error(result: std::io::Result<()>) {
    if let Err(error) = result {
        tracing::error!(%error, "the gRPC listener failed");
    }
}

/// Serves the connections of all listeners until the server is stopped.
pub(crate) async fn serve_listeners(
    app: &App,
    listener: Option<TcpListener>,
    extra_listeners: ExtraListeners,
    server_config: &ServerConfig,
    workers: &ConnectionWorkers,
    stop: CancellationToken,
) {
    let Some(listener) = listener else { return stop.cancelled().await };
    let mut service = HttpService::new(&app.state);
    if server_config.http_stack == HttpStack::Standard {
        service = service.without_fast_path();
    }
    if server_config.has_console {
        service = service.with_console(&app.state);
    }
    let streams = async {
        stop.cancelled().await;
        app.state.close();
    };
    let serve = server::serve_http(listener, service, workers, stop.clone());
    let extra_listeners = extra_listeners.serve_all(
        &app.state,
        &app.source_factory.node_cluster,
        workers,
        stop.clone(),
    );
    tokio::join!(serve, streams, extra_listeners);
}
