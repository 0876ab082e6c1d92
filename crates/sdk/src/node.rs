//! gRPC server of a node: serves a tool set and registers its tools.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use egress::Origin;
use proto::ServerConfig;
use proto::node::Tool as Listed;
use proto::server::{
    self, FunctionResult, GrpcListener, IncomingCall, ServiceFuture, serve_listener,
};
use proto::tls::{self, TlsIdentity};
use proto::{MetadataMap, Status};
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::client::new_connector;
use crate::registry_client::{RegistryClient, RejectedTool};
use crate::{Call, NodeOptions, ToolDefinition, ToolSet};

/// Reason why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Plaintext beyond the loopback was not allowed.
    #[error(
        "listening on {0} in plaintext lets everyone in the network call the tools; let the node \
         join and use TLS, listen on loopback, or allow it explicitly"
    )]
    PlaintextNotAllowed(SocketAddr),
    /// The address is in use, or does not belong to this machine.
    #[error("cannot listen: {0}")]
    BindFailed(#[from] io::Error),
    /// The node's certificate or the trusted ones cannot be read.
    #[error("TLS: {0}; `toolkeep node join` creates the folder")]
    InvalidTls(String),
    /// The server address to connect to is invalid.
    #[error("where to connect: {0}")]
    InvalidServerAddress(String),
    /// The socket file cannot be created.
    #[error("the socket `{0}`: {1}")]
    UnixSocket(PathBuf, io::Error),
    /// The key would be sent in plaintext beyond this machine.
    #[error(
        "the registry: {0}; use `https`, or `NodeOptions::insecure_registry` where the network is trusted"
    )]
    PlaintextKey(#[from] egress::PlaintextKeyError),
    /// The registry's address is invalid.
    #[error("the registry: {0}")]
    InvalidRegistryUrl(String),
}

/// Maximum bytes of a certificate or key.
const PEM_BYTES: u64 = 1 << 20;

/// Loads the server TLS configuration from a folder of `toolkeep node join`.
fn load_server_tls(folder: &Path) -> Result<Arc<ServerConfig>, StartError> {
    let read = |name: &str| {
        let path = folder.join(name);
        let text = rooted_fs::regular_file::read_text(&path, PEM_BYTES);
        text.map_err(|error| StartError::InvalidTls(format!("`{}`: {error}", path.display())))
    };
    let (certificate, key) = (read(tls::CERTIFICATE_FILE)?, read(tls::PRIVATE_KEY_FILE)?);
    let identity = TlsIdentity::from_pem(&certificate, &key, &read(tls::AUTHORITY_FILE)?);
    let config = identity.and_then(|identity| identity.server_config());
    config.map_err(|error| StartError::InvalidTls(error.to_string()))
}

/// Running node with its registered tools.
#[derive(Debug)]
pub struct Node {
    address: SocketAddr,
    id: String,
    draining: Arc<AtomicBool>,
    registration: Option<Arc<RegistryClient>>,
    stop: CancellationToken,
    tasks: TaskTracker,
    shutdown_timeout: Duration,
}

impl Node {
    /// Listens, then registers each tool. Returns after one attempt for each.
    ///
    /// # Errors
    /// [`StartError`]. A registry that does not answer is no error: registration is retried.
    pub async fn start(tools: ToolSet, mut options: NodeOptions) -> Result<Self, StartError> {
        let definitions: Vec<_> =
            tools.as_slice().iter().map(|tool| tool.definition.clone()).collect();
        let named = || definitions.iter().find_map(ToolDefinition::node_id).map(str::to_owned);
        let node_id = options.node_id.clone().or_else(named).unwrap_or_default();
        options.node_id = Some(node_id.clone());
        Self::start_with(Arc::new(LocalToolService { tools, node_id }), definitions, options).await
    }

    /// Starts a node whose tools run elsewhere: `calls` handles the calls, `tools` are registered.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start_with(
        calls: Arc<dyn server::ToolService>,
        tools: Vec<ToolDefinition>,
        options: NodeOptions,
    ) -> Result<Self, StartError> {
        let node_id = options.node_id.clone().unwrap_or_default();
        let registration = if let Some(url) = &options.registry {
            let origin = Origin::parse(url);
            let origin =
                origin.map_err(|error| StartError::InvalidRegistryUrl(error.to_string()))?;
            let key = options.key.clone();
            if key.is_some() {
                origin.check_key_transport(options.insecure_registry)?;
            }
            let made = RegistryClient::new(
                (url, origin),
                key,
                &node_id,
                tools,
                options.heartbeat_interval,
            );
            Some(Arc::new(made.map_err(StartError::InvalidRegistryUrl)?))
        } else {
            tracing::warn!("no registry is configured, so no tool is registered");
            None
        };
        let (on, address) = open_transport(&options, &node_id).await?;
        let draining = Arc::new(AtomicBool::new(false));
        let door =
            DrainingService { calls, node_id: node_id.clone(), draining: Arc::clone(&draining) };
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let served = serve_listener(Arc::new(door), on, stop.clone());
        drop(tasks.spawn(async move {
            if let Err(error) = served.await {
                tracing::error!(%error, "the node's server ended");
            }
        }));
        if let Some(registration) = &registration {
            registration.register().await;
            let (registration, stop) = (Arc::clone(registration), stop.clone());
            drop(tasks.spawn(async move { registration.run_heartbeat(&stop).await }));
        }
        tracing::info!(%address, node_id, "node listens");
        let grace = options.grace;
        Ok(Self {
            address,
            id: node_id,
            draining,
            registration,
            stop,
            tasks,
            shutdown_timeout: grace,
        })
    }

    /// Replaces the tools: registers new and changed ones, and unregisters removed ones.
    pub async fn replace_tools(&self, tools: Vec<ToolDefinition>) {
        if let Some(registration) = &self.registration {
            registration.replace_tools(tools).await;
        }
    }

    /// Returns the address that it listens on, with port 0 if it listens on none.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the id of the node; empty if it has none.
    pub fn node_id(&self) -> &str {
        &self.id
    }

    /// Returns the tools that the registry rejected, with the reasons.
    pub fn rejected_tools(&self) -> Vec<RejectedTool> {
        self.registration.as_ref().map(|it| it.rejected_tools()).unwrap_or_default()
    }

    /// Reports that it is draining, unregisters its tools, and waits a limited time for running
    /// calls.
    pub async fn stop(self) {
        self.draining.store(true, Ordering::Release);
        if let Some(registration) = &self.registration {
            registration.unregister_all().await;
        }
        self.stop.cancel();
        self.tasks.close();
        drop(tokio::time::timeout(self.shutdown_timeout, self.tasks.wait()).await);
    }
}

/// Opens the transport for calls and returns it with its address.
async fn open_transport(
    options: &NodeOptions,
    node_id: &str,
) -> Result<(GrpcListener, SocketAddr), StartError> {
    let none = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
    if let Some(path) = &options.socket {
        let listener =
            bind_unix_socket(path).map_err(|error| StartError::UnixSocket(path.clone(), error))?;
        return Ok((GrpcListener::Unix(listener), none));
    }
    let address = SocketAddr::new(options.host, options.port);
    let tls = options.tls.as_deref().map(load_server_tls).transpose()?;
    if let Some(server) = &options.connect {
        let told = "a node that connects needs a certificate: let it join".to_owned();
        let tls = tls.ok_or(StartError::InvalidServerAddress(told))?;
        if server.contains('/') {
            let message = format!("`{}` is not HOST:PORT", server.escape_debug());
            return Err(StartError::InvalidServerAddress(message));
        }
        let dial = new_connector(server).map_err(StartError::InvalidServerAddress)?;
        return Ok((GrpcListener::Reverse { dial, node_id: node_id.to_owned(), tls }, none));
    }
    if tls.is_none() && !address.ip().is_loopback() && !options.insecure {
        return Err(StartError::PlaintextNotAllowed(address));
    }
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    Ok((GrpcListener::Tcp(listener, tls), address))
}

/// Binds the socket. A stale socket file of a killed process is removed; any other file stays.
fn bind_unix_socket(path: &Path) -> io::Result<UnixListener> {
    use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
    use std::os::unix::net::UnixStream;
    if let Ok(there) = std::fs::symlink_metadata(path) {
        if !there.file_type().is_socket() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "another file exists there"));
        }
        if UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens there"));
        }
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
    Ok(listener)
}

/// Wraps a service and reports whether the node is draining.
struct DrainingService {
    calls: Arc<dyn server::ToolService>,
    node_id: String,
    draining: Arc<AtomicBool>,
}

impl server::ToolService for DrainingService {
    fn caller_id(&self, headers: MetadataMap) -> ServiceFuture<Result<String, Status>> {
        self.calls.caller_id(headers)
    }

    fn list_tools(&self, headers: MetadataMap) -> ServiceFuture<Result<Vec<Listed>, Status>> {
        self.calls.list_tools(headers)
    }

    fn call_tool(&self, asked: IncomingCall) -> ServiceFuture<Result<FunctionResult, Status>> {
        self.calls.call_tool(asked)
    }

    fn node_id(&self) -> String {
        self.node_id.clone()
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire) || self.calls.is_draining()
    }
}

struct LocalToolService {
    tools: ToolSet,
    node_id: String,
}

impl server::ToolService for LocalToolService {
    /// A node requires no credential. Callers with the same credential may cancel each other's
    /// calls.
    fn caller_id(&self, headers: MetadataMap) -> ServiceFuture<Result<String, Status>> {
        let given = headers.get("authorization").and_then(|value| value.to_str().ok());
        let given = given.unwrap_or_default().to_owned();
        Box::pin(async move { Ok(given) })
    }

    fn list_tools(&self, _: MetadataMap) -> ServiceFuture<Result<Vec<Listed>, Status>> {
        let listed = |tool: &crate::Tool| {
            let definition = &tool.definition;
            Listed {
                name: definition.name.clone(),
                description: definition.description.clone(),
                input_spec: definition.input_spec.to_string().into(),
                metadata: definition.metadata.to_string().into(),
            }
        };
        let all = self.tools.as_slice().iter().map(listed).collect();
        Box::pin(async move { Ok(all) })
    }

    fn call_tool(&self, asked: IncomingCall) -> ServiceFuture<Result<FunctionResult, Status>> {
        let IncomingCall { tool_name, input, progress, cancel_token: cancelled, .. } = asked;
        let Some(tool) = self.tools.find_tool(&tool_name) else {
            let error = format!("Tool '{tool_name}' not found.");
            return Box::pin(
                async move { Ok(FunctionResult { error, ..FunctionResult::default() }) },
            );
        };
        let metadata = tool.response_metadata(&self.node_id);
        let cancelled = cancelled.unwrap_or_default();
        let running = (tool.handler)(input, Call { progress, cancelled });
        Box::pin(async move {
            Ok(match running.await {
                Ok(output) => {
                    FunctionResult { success: true, output, error: String::new(), metadata }
                }
                Err(failure) => FunctionResult { error: failure.0, ..FunctionResult::default() },
            })
        })
    }

    fn node_id(&self) -> String {
        self.node_id.clone()
    }

    fn is_draining(&self) -> bool {
        false
    }
}
