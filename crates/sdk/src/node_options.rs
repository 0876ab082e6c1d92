//! The options of a node.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use tool::Secret;

/// Options of a node. Environment variables apply only through [`NodeOptions::from_env`].
#[derive(Debug, Clone)]
pub struct NodeOptions {
    pub(crate) port: u16,
    pub(crate) host: IpAddr,
    pub(crate) insecure: bool,
    pub(crate) tls: Option<PathBuf>,
    pub(crate) socket: Option<PathBuf>,
    pub(crate) connect: Option<String>,
    pub(crate) node_id: Option<String>,
    pub(crate) registry: Option<String>,
    pub(crate) key: Option<Secret>,
    pub(crate) insecure_registry: bool,
    pub(crate) heartbeat_interval: Duration,
    pub(crate) grace: Duration,
}

impl Default for NodeOptions {
    /// Port 50051 on the loopback, without registration.
    fn default() -> Self {
        Self {
            port: 50051,
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            insecure: false,
            tls: None,
            socket: None,
            connect: None,
            node_id: None,
            registry: None,
            key: None,
            insecure_registry: false,
            heartbeat_interval: Duration::from_secs(5),
            grace: Duration::from_secs(10),
        }
    }
}

impl NodeOptions {
    /// Reads `ORG_SYSTEM_TOOLS_REGISTRY_URL`, `TOOLKEEP_KEY`, `TOOLKEEP_NODE_ID`,
    /// `TOOLKEEP_NODE_TLS` and `TOOLKEEP_INSECURE` (`1`; see [`NodeOptions::insecure_registry`]).
    #[expect(clippy::disallowed_methods, reason = "a node is a program of its own")]
    pub fn from_env() -> Self {
        let read = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            registry: read("ORG_SYSTEM_TOOLS_REGISTRY_URL"),
            key: read("TOOLKEEP_KEY").map(Secret::new),
            node_id: read("TOOLKEEP_NODE_ID"),
            tls: read("TOOLKEEP_NODE_TLS").map(PathBuf::from),
            insecure_registry: read("TOOLKEEP_INSECURE").is_some_and(|value| value == "1"),
            ..Self::default()
        }
    }

    /// Sets the port; 0 selects any free port.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Sets the address. Beyond the loopback the node listens only if `insecure` allows plaintext.
    #[must_use]
    pub fn host(mut self, host: IpAddr, insecure: bool) -> Self {
        (self.host, self.insecure) = (host, insecure);
        self
    }

    /// Sets the folder that `toolkeep node join` created. Only the server can then call the node,
    /// wherever it listens.
    #[must_use]
    pub fn tls(mut self, folder: impl Into<PathBuf>) -> Self {
        self.tls = Some(folder.into());
        self
    }

    /// Listens on this Unix socket and on no port: every process that may open the file can call
    /// the tools. The file is accessible to its owner and group. For a local forwarder.
    #[must_use]
    pub fn socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.socket = Some(path.into());
        self
    }

    /// Connects to `HOST:PORT`, where the server accepts nodes (`serve --node-listen`), and
    /// receives calls over that connection only: for a node that cannot be reached. Requires
    /// [`NodeOptions::tls`].
    #[must_use]
    pub fn connect(mut self, server: impl Into<String>) -> Self {
        self.connect = Some(server.into());
        self
    }

    /// Sets the node's id, if no tool's metadata contains it.
    #[must_use]
    pub fn node_id(mut self, id: impl Into<String>) -> Self {
        self.node_id = Some(id.into());
        self
    }

    /// Sets the registry and its key. A node with a key registers over `https` or on this machine;
    /// see [`NodeOptions::insecure_registry`].
    #[must_use]
    pub fn registry(mut self, url: impl Into<String>, key: Option<Secret>) -> Self {
        (self.registry, self.key) = (Some(url.into()), key);
        self
    }

    /// Allows sending the key over plain http beyond this machine, for a trusted network: everyone
    /// on the path can read it.
    #[must_use]
    pub fn insecure_registry(mut self, insecure: bool) -> Self {
        self.insecure_registry = insecure;
        self
    }

    /// Sets the heartbeat interval; five seconds by default.
    #[must_use]
    pub fn beat(mut self, interval: Duration) -> Self {
        self.heartbeat_interval = interval;
        self
    }

    /// Sets the maximum wait for running calls on shutdown; ten seconds by default.
    #[must_use]
    pub fn grace(mut self, max_wait: Duration) -> Self {
        self.grace = max_wait;
        self
    }
}
