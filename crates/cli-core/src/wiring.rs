//! What the command line needs of the server. `wire` supplies it; nothing here names a concrete part.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tool::{Boxed, Level, Problem, Secret};

use super::data::{FirstKey, Held, KeyChanges, KeyState};
use super::door::Door;
use super::failure::Failure;
use config::{Config, Environment, Faults, Reading, Setting};

/// Puts a server together.
pub trait Wiring: Sync {
    /// Starts a server. Resolves when it takes requests; whoever needs sources waits for them by
    /// [`Door::sources`].
    ///
    /// # Errors
    /// Where it cannot start: the address is taken, the store or the record cannot be opened.
    fn start(&self, start: Start) -> Boxed<'_, Result<Running, Failure>>;

    /// Loads what a server would load of a configuration without starting anything: tool files and plugins
    /// are read, and the names in it are compared with what there is.
    ///
    /// # Errors
    /// Where this machine has no means to read them.
    fn review<'a>(
        &'a self,
        config: &'a Config,
        environment: &'a Arc<Environment>,
    ) -> Boxed<'a, Result<Review, Failure>>;
}

/// What a server would say of a configuration that it can read.
#[derive(Debug, Clone, Default)]
pub struct Review {
    /// What it would leave out: whole sources, and single tools of a source.
    pub left_out: Vec<Problem>,
    /// Names that match nothing: slips, or what is yet to come.
    pub warnings: Vec<Problem>,
}

/// Where to listen beside HTTP; `None` is nowhere.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// For gRPC, whose callers bring a key.
    pub grpc: Option<SocketAddr>,
    /// For gRPC of callers who bring none, and the key that is theirs then. On the loopback.
    pub plain: Option<(SocketAddr, Secret)>,
    /// For nodes that connect.
    pub nodes: Option<SocketAddr>,
    /// For nodes that register without a key, and the key of the one that they are then. On the loopback.
    pub old_nodes: Option<(SocketAddr, Secret)>,
}

/// Where it came to listen.
#[derive(Debug, Clone, Copy, Default)]
pub struct Listening {
    /// See [`Places::grpc`].
    pub grpc: Option<SocketAddr>,
    /// See [`Places::plain`].
    pub plain: Option<SocketAddr>,
    /// See [`Places::nodes`].
    pub nodes: Option<SocketAddr>,
    /// See [`Places::old_nodes`].
    pub old_nodes: Option<SocketAddr>,
}

/// From a key to what its owner may call.
pub type Offers =
    Box<dyn Fn(&Secret) -> Result<Arc<dyn proto::serve::Tools>, Failure> + Send + Sync>;

/// What a server is started with.
#[expect(clippy::struct_excessive_bools, reason = "independent switches of a start")]
#[derive(Debug, Clone)]
pub struct Start {
    /// The configuration: what of it can be used.
    pub config: Config,
    /// What is wrong with the rest of it: to be shown with the sources.
    pub faults: Faults,
    /// How it was read, so that it can be followed; `reading` is the first one.
    pub setting: Setting,
    /// The first reading.
    pub reading: Reading,
    /// The data directory, for as long as the server runs.
    pub held: Arc<Held>,
    /// Whether to listen on the configured address.
    pub listen: bool,
    /// Whether the start waits until each source has been tried once, a second at the latest.
    pub settles: bool,
    /// Where to listen beside HTTP.
    pub beside: Places,
    /// The level of those who bring no key; `None` lets nobody in without one.
    pub open: Option<Level>,
    /// Whether to make keys anew that are missing.
    pub make_keys: bool,
    /// Whether the machine's clock counts where it is behind the latest time that was seen.
    pub accept_clock: bool,
    /// Ends it.
    pub stop: CancellationToken,
}

impl Start {
    /// For this process alone: no socket, nobody without a key.
    ///
    /// # Errors
    /// The faults, where nothing of the configuration can be used.
    pub fn new(
        setting: Setting,
        reading: Reading,
        held: Arc<Held>,
        stop: CancellationToken,
    ) -> Result<Self, Failure> {
        let Some(config) = reading.config.clone() else {
            return Err(Failure::of_faults(reading.faults));
        };
        let faults = reading.faults.clone();
        let (beside, open) = (Places::default(), None);
        let (listen, make_keys, accept_clock) = (false, false, false);
        Ok(Self {
            config,
            faults,
            setting,
            reading,
            held,
            listen,
            settles: false,
            beside,
            open,
            make_keys,
            accept_clock,
            stop,
        })
    }
}

/// A server that runs.
pub struct Running {
    /// Where it listens.
    pub address: Option<SocketAddr>,
    /// Where it listens beside HTTP.
    pub beside: Listening,
    /// Speaks to it without a socket.
    pub door: Arc<dyn Door>,
    /// What the owner of a key may call, for a door of its own.
    pub offers: Offers,
    /// What was done about the keys of the installation.
    pub keys: KeyChanges,
    /// Key files without a valid key.
    pub invalid: Vec<(FirstKey, KeyState)>,
    /// Resolves when it has ended, calls and children included.
    pub ended: Boxed<'static, Result<(), Failure>>,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("address", &self.address).finish_non_exhaustive()
    }
}
