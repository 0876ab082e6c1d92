//! The gRPC server: both services, health and reflection, for any implementation of the tool
//! service.

mod call_events;
mod call_service;
mod pinned_connections;
mod running_calls;
mod tls_incoming;

use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustls::ServerConfig;
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::metadata::MetadataMap;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic_health::server::HealthReporter;

use crate::client::ConnectFuture;
use crate::node::node_server::NodeServer;
use crate::node::{Progress, Tool};
use crate::toolrpc::tool_executor_server::ToolExecutorServer;
use crate::{FILE_DESCRIPTORS, MAX_MESSAGE_BYTES};
use call_service::CallService;
pub use pinned_connections::RuntimeAssignment;

/// Maximum number of concurrent calls of a connection; further ones wait.
const MAX_CONCURRENT_STREAMS: u32 = 256;
/// Keepalive interval and timeout of a client.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum size of a health or reflection request, which needs no credential, in bytes.
const MAX_PUBLIC_REQUEST_BYTES: usize = 16 << 10;

/// The services whose health is reported; the empty name stands for the whole server.
const HEALTH_SERVICES: [&str; 3] = ["", "toolrpc.ToolExecutor", "toolkeep.node.v1.Node"];

/// A boxed future of a service method.
pub type ServiceFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A call as received.
pub struct IncomingCall {
    /// The name of the tool.
    pub tool_name: String,
    /// The input, not yet parsed.
    pub input: Bytes,
    /// The headers of the request, including the caller's credential.
    pub headers: MetadataMap,
    /// The caller's timeout, if it sent one.
    pub timeout: Option<Duration>,
    /// Sends progress to the caller.
    pub progress: ProgressSender,
    /// Fires when the caller cancels, if it can. A disconnected caller drops the call.
    pub cancel_token: Option<CancellationToken>,
    /// The value that [`ToolService::open_connection`] returned for the connection; `None` if it is not known.
    pub connection: Option<ConnectionExtension>,
}

/// Runs `call` until it completes or the caller cancels it; returns `None` then.
pub async fn run_until_cancelled<T>(
    cancelled: Option<CancellationToken>,
    call: impl Future<Output = T>,
) -> Option<T> {
    let Some(cancelled) = cancelled else { return Some(call.await) };
    cancelled.run_until_cancelled(call).await
}

/// State that a tool service attaches to one connection.
pub type ConnectionExtension = Arc<dyn Any + Send + Sync>;

/// Sends progress to the caller, or nothing if the caller did not request it.
#[derive(Debug, Clone, Default)]
pub struct ProgressSender(Option<tokio::sync::mpsc::Sender<Progress>>);

impl ProgressSender {
    /// Sends progress, `done` of `total`. Never waits.
    pub fn send_progress(&self, done: f64, total: Option<f64>, message: &str) {
        if let Some(sender) = &self.0 {
            let progress = Progress { done, total, message: message.to_owned() };
            // Lossy on purpose.
            drop(sender.try_send(progress));
        }
    }

    /// Whether the caller requested progress.
    pub fn has_receiver(&self) -> bool {
        self.0.is_some()
    }
}

/// The result of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FunctionResult {
    /// Whether the tool succeeded.
    pub success: bool,
    /// The output of the tool.
    pub output: Bytes,
    /// The error message, on one line.
    pub error: String,
    /// Additional data about the result.
    pub metadata: BTreeMap<String, String>,
}

/// The tools that a server offers.
pub trait ToolService: Send + Sync + 'static {
    /// Called for each new connection. The returned value is passed to its calls.
    fn open_connection(&self) -> Option<ConnectionExtension> {
        None
    }

    /// Checks whether the sender of these headers may call at all. Called before the server waits
    /// for a message that has not arrived with its headers.
    ///
    /// # Errors
    /// Fails if the credential is invalid.
    fn check_admission(
        &self,
        _headers: MetadataMap,
        _connection: Option<ConnectionExtension>,
    ) -> ServiceFuture<Result<(), Status>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Returns the id of the caller. Only the caller that started a call can cancel it.
    ///
    /// # Errors
    /// Fails if the credential is invalid.
    fn caller_id(&self, headers: MetadataMap) -> ServiceFuture<Result<String, Status>>;

    /// Lists the tools for the caller of these headers.
    fn list_tools(&self, headers: MetadataMap) -> ServiceFuture<Result<Vec<Tool>, Status>>;

    /// Runs one call for the caller of its headers. A failed tool is a [`FunctionResult`]; the
    /// status is for invalid requests, such as one without a credential.
    fn call_tool(&self, call: IncomingCall) -> ServiceFuture<Result<FunctionResult, Status>>;

    /// Returns the id of the node, or an empty text if this is no node.
    fn node_id(&self) -> String;

    /// Whether the node is draining and wants no new calls.
    fn is_draining(&self) -> bool;
}

/// The transport over which calls arrive.
pub enum GrpcListener {
    /// A TCP listener. With TLS, only clients with a certificate of its authority are accepted (see
    /// [`crate::tls::TlsIdentity::server_config`]).
    Tcp(TcpListener, Option<Arc<ServerConfig>>),
    /// A Unix domain socket.
    Unix(UnixListener),
    /// A reverse connection, for a node that accepts no connections: the node dials the server and
    /// reconnects; the server then acts as the TLS client and sends calls.
    Reverse {
        /// Opens the connection.
        dial: Arc<dyn Fn() -> ConnectFuture + Send + Sync>,
        /// The id of this node.
        node_id: String,
        /// The certificate of the node, and the clients that it accepts.
        tls: Arc<ServerConfig>,
    },
}

impl std::fmt::Debug for GrpcListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GrpcListener")
    }
}

/// Serves a TCP listener until `stop` fires and the running calls are done.
///
/// # Errors
/// Fails if the listener fails.
pub async fn serve_tcp(
    tool_service: Arc<dyn ToolService>,
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    stop: CancellationToken,
) -> io::Result<()> {
    serve_listener(tool_service, GrpcListener::Tcp(listener, tls), stop).await
}

/// Serves a TCP listener, with each connection pinned to a runtime.
///
/// # Errors
/// Fails if the service descriptors are invalid.
pub async fn serve_pinned(
    tool_service: Arc<dyn ToolService>,
    listener: TcpListener,
    assign_runtime: &(dyn Fn() -> RuntimeAssignment + Send + Sync),
    stop: CancellationToken,
) -> io::Result<()> {
    let (routes, health) = build_services(Arc::clone(&tool_service)).await?;
    let handlers =
        Arc::new(pinned_connections::RequestHandlers { tool_service, routes: routes.prepare() });
    let serving =
        pinned_connections::serve_connections(handlers, listener, assign_runtime, stop.clone());
    tokio::join!(serving, report_stopping(health, stop));
    Ok(())
}

/// Serves any transport until `stop` fires and the running calls are done.
///
/// # Errors
/// Fails if the listener fails.
pub async fn serve_listener(
    tool_service: Arc<dyn ToolService>,
    listener_kind: GrpcListener,
    stop: CancellationToken,
) -> io::Result<()> {
    let (routes, health) = build_services(tool_service).await?;
    let shutdown = report_stopping(health, stop);
    let router = Server::builder()
        .max_concurrent_streams(MAX_CONCURRENT_STREAMS)
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_INTERVAL))
        .add_routes(routes);
    let result = match listener_kind {
        GrpcListener::Tcp(listener, Some(tls)) => {
            router
                .serve_with_incoming_shutdown(tls_incoming::accept_tls(listener, tls), shutdown)
                .await
        }
        GrpcListener::Tcp(listener, None) => {
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            router.serve_with_incoming_shutdown(incoming, shutdown).await
        }
        GrpcListener::Unix(listener) => {
            let incoming = futures_util::stream::unfold(listener, |listener| async {
                let accepted = listener.accept().await.map(|(stream, _)| stream);
                Some((accepted, listener))
            });
            router.serve_with_incoming_shutdown(incoming, shutdown).await
        }
        GrpcListener::Reverse { dial, node_id, tls } => {
            let incoming = tls_incoming::reverse_incoming(dial, node_id, tls);
            router.serve_with_incoming_shutdown(incoming, shutdown).await
        }
    };
    result.map_err(io::Error::other)
}

/// Builds all services for these tools, and the reporter of their health.
async fn build_services(
    tool_service: Arc<dyn ToolService>,
) -> io::Result<(Routes, HealthReporter)> {
    let (health, health_service) = tonic_health::server::health_reporter();
    for service in HEALTH_SERVICES {
        health.set_service_status(service, tonic_health::ServingStatus::Serving).await;
    }
    let reflection_builder = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let descriptor_error = |error| io::Error::other(format!("the descriptors: {error}"));
    let v1 = reflection_builder().build_v1().map_err(descriptor_error)?;
    let v1alpha = reflection_builder().build_v1alpha().map_err(descriptor_error)?;
    let (v1, v1alpha) = (
        v1.max_decoding_message_size(MAX_PUBLIC_REQUEST_BYTES),
        v1alpha.max_decoding_message_size(MAX_PUBLIC_REQUEST_BYTES),
    );
    let health_service = health_service.max_decoding_message_size(MAX_PUBLIC_REQUEST_BYTES);
    let call_service = CallService::new(tool_service);
    let executor = ToolExecutorServer::new(call_service.clone())
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let node = NodeServer::new(call_service)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let routes = Routes::new(health_service)
        .add_service(v1)
        .add_service(v1alpha)
        .add_service(executor)
        .add_service(node);
    Ok((routes, health))
}

/// Waits until the server stops, then reports all services as not serving.
async fn report_stopping(health: HealthReporter, stop: CancellationToken) {
    stop.cancelled().await;
    for service in HEALTH_SERVICES {
        health.set_service_status(service, tonic_health::ServingStatus::NotServing).await;
    }
}

#[cfg(test)]
mod tests;
