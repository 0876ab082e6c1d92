//! A gRPC server for a tool set, and its registration.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use egress::{Egress, EgressSettings, Origin};
use proto::ServerConfig;
use proto::connect::{Dialled, Duplex};
use proto::node::Tool as Listed;
use proto::serve::{self, Asked, Boxed, On, Said, serve_on};
use proto::tls::{self, Identity};
use proto::{MetadataMap, Status};
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::registration::Registration;
use crate::{Call, Described, Options, Tools};

/// Time for one connection.
const CONNECT: Duration = Duration::from_secs(10);

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Plaintext beyond the loopback was not meant.
    #[error(
        "listening on {0} in plaintext lets anyone who reaches it call the tools; let the node join \
         and use TLS, listen on the loopback, or say that it is meant"
    )]
    Plaintext(SocketAddr),
    /// The address is taken, or none of this machine's.
    #[error("cannot listen: {0}")]
    Listen(#[from] io::Error),
    /// What the node is to show, or whom to believe, cannot be read.
    #[error("TLS: {0}; `toolkeep node join` makes the folder")]
    Tls(String),
    /// Where it should dial cannot be used.
    #[error("where to connect: {0}")]
    Connect(String),
    /// The socket's file cannot be made.
    #[error("the socket `{0}`: {1}")]
    Socket(PathBuf, io::Error),
    /// The key would be sent in plaintext beyond this machine.
    #[error(
        "the registry: {0}; use `https`, or `Options::insecure_registry` where the network is trusted"
    )]
    PlaintextKey(#[from] egress::PlaintextKey),
    /// The registry's address cannot be used.
    #[error("the registry: {0}")]
    Registry(String),
}

/// The longest certificate or key that is read, in bytes.
const PEM_BYTES: u64 = 1 << 20;

/// What a folder of `toolkeep node join` holds, as a server shows it.
fn shown(folder: &Path) -> Result<Arc<ServerConfig>, StartError> {
    let read = |name: &str| {
        let path = folder.join(name);
        let text = rooted_fs::files::read_text(&path, PEM_BYTES);
        text.map_err(|error| StartError::Tls(format!("`{}`: {error}", path.display())))
    };
    let (certificate, key) = (read(tls::CERTIFICATE)?, read(tls::KEY)?);
    let identity = Identity::of_pem(&certificate, &key, &read(tls::AUTHORITY)?);
    let config = identity.and_then(|identity| identity.server());
    config.map_err(|error| StartError::Tls(error.to_string()))
}

/// A running node.
#[derive(Debug)]
pub struct Node {
    address: SocketAddr,
    id: String,
    draining: Arc<AtomicBool>,
    registration: Option<Arc<Registration>>,
    stop: CancellationToken,
    tasks: TaskTracker,
    grace: Duration,
}

impl Node {
    /// Listens, then registers each tool; returns once each was tried once.
    ///
    /// # Errors
    /// [`StartError`]. A registry that does not answer is none: it is tried again.
    pub async fn start(tools: Tools, mut options: Options) -> Result<Self, StartError> {
        let named = || tools.all().iter().find_map(crate::Tool::node_id).map(str::to_owned);
        let node_id = options.node_id.clone().or_else(named).unwrap_or_default();
        options.node_id = Some(node_id.clone());
        let described = tools.all().iter().map(crate::Tool::described).collect();
        Self::offer(Arc::new(Door { tools, node_id }), described, options).await
    }

    /// The same for tools that somebody else runs: `calls` answers, `tools` are registered.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn offer(
        calls: Arc<dyn serve::Tools>,
        tools: Vec<Described>,
        options: Options,
    ) -> Result<Self, StartError> {
        let node_id = options.node_id.clone().unwrap_or_default();
        let registration = if let Some(url) = &options.registry {
            let origin = Origin::parse(url);
            let origin = origin.map_err(|error| StartError::Registry(error.to_string()))?;
            let key = options.key.clone();
            if key.is_some() {
                origin.check_key(options.insecure_registry)?;
            }
            let made = Registration::new((url, origin), key, &node_id, tools, options.beat);
            Some(Arc::new(made.map_err(StartError::Registry)?))
        } else {
            tracing::warn!("no registry is named: no tool is registered");
            None
        };
        let (on, address) = place(&options, &node_id).await?;
        let draining = Arc::new(AtomicBool::new(false));
        let door = Ending { calls, node_id: node_id.clone(), draining: Arc::clone(&draining) };
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let served = serve_on(Arc::new(door), on, stop.clone());
        drop(tasks.spawn(async move {
            if let Err(error) = served.await {
                tracing::error!(%error, "the node's server ended");
            }
        }));
        if let Some(registration) = &registration {
            registration.register().await;
            let (registration, stop) = (Arc::clone(registration), stop.clone());
            drop(tasks.spawn(async move { registration.beat(&stop).await }));
        }
        tracing::info!(%address, node_id, "node listens");
        let grace = options.grace;
        Ok(Self { address, id: node_id, draining, registration, stop, tasks, grace })
    }

    /// Has other tools from here on: what is new or changed is registered, what is gone taken back.
    pub async fn set(&self, tools: Vec<Described>) {
        if let Some(registration) = &self.registration {
            registration.set(tools).await;
        }
    }

    /// Where it listens; port 0 where it listens on none.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its id; empty where nobody gave it one.
    pub fn node_id(&self) -> &str {
        &self.id
    }

    /// Tools that the registry did not take, with why.
    pub fn refused(&self) -> Vec<(String, String)> {
        self.registration.as_ref().map(|it| it.refused()).unwrap_or_default()
    }

    /// Tells that it ends, takes its tools back, and waits for the calls that run, though not for ever.
    pub async fn stop(self) {
        self.draining.store(true, Ordering::Release);
        if let Some(registration) = &self.registration {
            registration.leave().await;
        }
        self.stop.cancel();
        self.tasks.close();
        drop(tokio::time::timeout(self.grace, self.tasks.wait()).await);
    }
}

/// Where calls come from, and its address.
async fn place(options: &Options, node_id: &str) -> Result<(On, SocketAddr), StartError> {
    let none = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
    if let Some(path) = &options.socket {
        let listener = socket(path).map_err(|error| StartError::Socket(path.clone(), error))?;
        return Ok((On::Unix(listener), none));
    }
    let address = SocketAddr::new(options.host, options.port);
    let tls = options.tls.as_deref().map(shown).transpose()?;
    if let Some(server) = &options.connect {
        let told = "a node that connects shows its certificate: let it join".to_owned();
        let tls = tls.ok_or(StartError::Connect(told))?;
        let dial = dialler(server).map_err(StartError::Connect)?;
        return Ok((On::Dialled { dial, node_id: node_id.to_owned(), tls }, none));
    }
    if tls.is_none() && !address.ip().is_loopback() && !options.insecure {
        return Err(StartError::Plaintext(address));
    }
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    Ok((On::Tcp(listener, tls), address))
}

/// A socket's file that was left behind by one that was killed is put aside; anything else stays.
fn socket(path: &Path) -> io::Result<UnixListener> {
    use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
    use std::os::unix::net::UnixStream;
    if let Ok(there) = std::fs::symlink_metadata(path) {
        if !there.file_type().is_socket() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "something else is there"));
        }
        if UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "somebody listens there"));
        }
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
    Ok(listener)
}

/// Dials `HOST:PORT`.
fn dialler(server: &str) -> Result<Arc<dyn Fn() -> Dialled + Send + Sync>, String> {
    if server.contains('/') {
        return Err(format!("`{}` is not written as HOST:PORT", server.escape_debug()));
    }
    let origin = Origin::parse(&format!("http://{server}")).map_err(|error| error.to_string())?;
    let egress = Egress::new(EgressSettings::default()).map_err(|error| error.to_string())?;
    Ok(Arc::new(move || {
        let (egress, origin) = (egress.clone(), origin.clone());
        Box::pin(async move {
            let stream = egress.stream(&origin, CONNECT).await.map_err(io::Error::other)?;
            Ok(Box::new(stream) as Box<dyn Duplex>)
        })
    }))
}

/// Tells that it ends.
struct Ending {
    calls: Arc<dyn serve::Tools>,
    node_id: String,
    draining: Arc<AtomicBool>,
}

impl serve::Tools for Ending {
    fn who(&self, headers: MetadataMap) -> Boxed<Result<String, Status>> {
        self.calls.who(headers)
    }

    fn list(&self, headers: MetadataMap) -> Boxed<Result<Vec<Listed>, Status>> {
        self.calls.list(headers)
    }

    fn call(&self, asked: Asked) -> Boxed<Result<Said, Status>> {
        self.calls.call(asked)
    }

    fn node_id(&self) -> String {
        self.node_id.clone()
    }

    fn draining(&self) -> bool {
        self.draining.load(Ordering::Acquire) || self.calls.draining()
    }
}

struct Door {
    tools: Tools,
    node_id: String,
}

impl serve::Tools for Door {
    /// A node asks for no credential; what one caller may cancel, any that says the same may.
    fn who(&self, headers: MetadataMap) -> Boxed<Result<String, Status>> {
        let given = headers.get("authorization").and_then(|value| value.to_str().ok());
        let given = given.unwrap_or_default().to_owned();
        Box::pin(async move { Ok(given) })
    }

    fn list(&self, _: MetadataMap) -> Boxed<Result<Vec<Listed>, Status>> {
        let listed = |tool: &crate::Tool| Listed {
            name: tool.name.clone(),
            description: tool.description.clone(),
            input_spec: tool.input_spec.to_string().into(),
            metadata: tool.metadata.to_string().into(),
        };
        let all = self.tools.all().iter().map(listed).collect();
        Box::pin(async move { Ok(all) })
    }

    fn call(&self, asked: Asked) -> Boxed<Result<Said, Status>> {
        let Asked { tool_name, input, progress, cancelled, .. } = asked;
        let Some(tool) = self.tools.find(&tool_name) else {
            let error = format!("Tool '{tool_name}' not found.");
            return Box::pin(async move { Ok(Said { error, ..Said::default() }) });
        };
        let metadata = tool.told_metadata(&self.node_id);
        let cancelled = cancelled.unwrap_or_default();
        let running = (tool.run)(input, Call { progress, cancelled });
        Box::pin(async move {
            Ok(match running.await {
                Ok(output) => Said { success: true, output, error: String::new(), metadata },
                Err(failure) => Said { error: failure.0, ..Said::default() },
            })
        })
    }

    fn node_id(&self) -> String {
        self.node_id.clone()
    }

    fn draining(&self) -> bool {
        false
    }
}
