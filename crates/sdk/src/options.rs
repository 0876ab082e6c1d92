//! The options of a node.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use tool::Secret;

/// How a node is started. Nothing of the environment counts unless [`Options::from_env`] reads it.
#[derive(Debug, Clone)]
pub struct Options {
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
    pub(crate) beat: Duration,
    pub(crate) grace: Duration,
}

impl Default for Options {
    /// Port 50051 on the loopback, registered nowhere.
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
            beat: Duration::from_secs(5),
            grace: Duration::from_secs(10),
        }
    }
}

impl Options {
    /// Reads `ORG_SYSTEM_TOOLS_REGISTRY_URL`, `TOOLKEEP_KEY`, `TOOLKEEP_NODE_ID`, `TOOLKEEP_NODE_TLS` and
    /// `TOOLKEEP_INSECURE` (`1`; see [`Options::insecure_registry`]).
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

    /// Where to listen; 0 is any free port.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Beyond the loopback it listens only where `insecure` says that plaintext is meant.
    #[must_use]
    pub fn host(mut self, host: IpAddr, insecure: bool) -> Self {
        (self.host, self.insecure) = (host, insecure);
        self
    }

    /// The folder that `toolkeep node join` made. Only the server can call the node then, wherever it
    /// listens.
    #[must_use]
    pub fn tls(mut self, folder: impl Into<PathBuf>) -> Self {
        self.tls = Some(folder.into());
        self
    }

    /// Listens on this socket of the machine, and on no port: whoever may open its file calls the tools.
    /// The file is made for its owner and group. What a forwarder hands calls to.
    #[must_use]
    pub fn socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.socket = Some(path.into());
        self
    }

    /// Dials `HOST:PORT`, where the server waits for nodes (`serve --node-listen`), and takes calls over
    /// that connection alone: for a node that nobody can reach. Wants [`Options::tls`].
    #[must_use]
    pub fn connect(mut self, server: impl Into<String>) -> Self {
        self.connect = Some(server.into());
        self
    }

    /// The node's id, where no tool's metadata has it.
    #[must_use]
    pub fn node_id(mut self, id: impl Into<String>) -> Self {
        self.node_id = Some(id.into());
        self
    }

    /// Where to register, and with which key. A node with a key registers over `https` or on this
    /// machine; see [`Options::insecure_registry`].
    #[must_use]
    pub fn registry(mut self, url: impl Into<String>, key: Option<Secret>) -> Self {
        (self.registry, self.key) = (Some(url.into()), key);
        self
    }

    /// Sends the key over plain http beyond this machine as well, for a network that is trusted:
    /// everyone on the way can read it.
    #[must_use]
    pub fn insecure_registry(mut self, insecure: bool) -> Self {
        self.insecure_registry = insecure;
        self
    }

    /// Between two signs of life; five seconds where nothing is said.
    #[must_use]
    pub fn beat(mut self, every: Duration) -> Self {
        self.beat = every;
        self
    }

    /// The longest that calls are waited for at the end; ten seconds where nothing is said.
    #[must_use]
    pub fn grace(mut self, longest: Duration) -> Self {
        self.grace = longest;
        self
    }
}
