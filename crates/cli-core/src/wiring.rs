//! The port through which commands start a server, which the application implements.

use std::any::Any;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tool::{Boxed, Level, Problem, Secret};

use super::data::{FirstKey, Held, KeyChanges, KeyState};
use super::door::Door;
use super::failure::{Exit, Failure};
use config::{Config, Environment, Faults, Reading, Setting};

/// Starts a server from its configuration.
pub trait Wiring: Sync {
    /// Starts a server. Resolves when it accepts requests; callers wait for sources with
    /// [`Door::sources`].
    ///
    /// # Errors
    /// Returns an error if it cannot start: the address is in use, or the store or record cannot be
    /// opened.
    fn start(&self, start: Start) -> Boxed<'_, Result<Running, Failure>>;

    /// Loads a configuration as a server would, without starting anything: reads tool files and
    /// plugins, and compares names.
    ///
    /// # Errors
    /// Returns an error if this machine cannot read them.
    fn review<'a>(
        &'a self,
        config: &'a Config,
        environment: &'a Arc<Environment>,
    ) -> Boxed<'a, Result<Review, Failure>>;
}

/// The findings of a server about a valid configuration.
#[derive(Debug, Clone, Default)]
pub struct Review {
    /// Sources and single tools that it would omit.
    pub left_out: Vec<Problem>,
    /// Names that match nothing, such as typos.
    pub warnings: Vec<Problem>,
}

/// The listen addresses besides HTTP; `None` disables a listener.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// The gRPC listener, whose callers send a key.
    pub grpc: Option<SocketAddr>,
    /// The gRPC listener for callers without a key, and the key they act with. Loopback only.
    pub plain: Option<(SocketAddr, Secret)>,
    /// The listener for nodes that connect.
    pub nodes: Option<SocketAddr>,
    /// The listener for nodes that register without a key, and the key of the one node they act as.
    /// Loopback only.
    pub old_nodes: Option<(SocketAddr, Secret)>,
}

/// The addresses that were bound besides HTTP.
#[derive(Debug, Clone, Copy, Default)]
pub struct Listening {
    /// The address for [`Places::grpc`].
    pub grpc: Option<SocketAddr>,
    /// The address for [`Places::plain`].
    pub plain: Option<SocketAddr>,
    /// The address for [`Places::nodes`].
    pub nodes: Option<SocketAddr>,
    /// The address for [`Places::old_nodes`].
    pub old_nodes: Option<SocketAddr>,
}

/// Creates the tool server with the rights of a key. Its type is the one of the application's gRPC server, which
/// commands build without.
pub struct Offers(Box<OpenOffer>);

type OpenOffer = dyn Fn(&Secret) -> Result<Box<dyn Any + Send>, Failure> + Send + Sync;

impl Offers {
    /// Creates tool servers with `open`.
    pub fn new<T: Send + 'static>(
        open: impl Fn(&Secret) -> Result<T, Failure> + Send + Sync + 'static,
    ) -> Self {
        Self(Box::new(move |key| Ok(Box::new(open(key)?))))
    }

    /// Creates the tool server with the rights of `key`.
    ///
    /// # Errors
    /// Returns an error if the key is invalid, or if the application's tool server is no `T`.
    pub fn open<T: 'static>(&self, key: &Secret) -> Result<T, Failure> {
        let offer = (self.0)(key)?.downcast::<T>().map(|offer| *offer);
        offer.map_err(|_| Failure::new(Exit::Failed, "this server offers no tools to a node"))
    }
}

impl fmt::Debug for Offers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Offers(…)")
    }
}

/// The options with which a server is started.
#[expect(clippy::struct_excessive_bools, reason = "independent switches of a start")]
#[derive(Debug, Clone)]
pub struct Start {
    /// The usable part of the configuration.
    pub config: Config,
    /// The errors in the rest of the configuration, shown with the sources.
    pub faults: Faults,
    /// The options it was loaded with, used to reload it; `reading` is the first result.
    pub setting: Setting,
    /// The result of the first load.
    pub reading: Reading,
    /// The lock on the data directory, held as long as the server runs.
    pub held: Arc<Held>,
    /// Whether to listen on the configured address.
    pub listen: bool,
    /// Whether the start waits until each source was tried once, at most one second.
    pub settles: bool,
    /// The listen addresses besides HTTP.
    pub beside: Places,
    /// The level of callers without a key; `None` rejects them.
    pub open: Option<Level>,
    /// Whether to recreate missing keys.
    pub make_keys: bool,
    /// Whether to trust a clock that is behind the latest recorded time.
    pub accept_clock: bool,
    /// The token that stops the server.
    pub stop: CancellationToken,
}

impl Start {
    /// Options for a server in this process only: no socket, no access without a key.
    ///
    /// # Errors
    /// Returns the errors if no part of the configuration is usable.
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

/// A running server of this process.
pub struct Running {
    /// The address it listens on.
    pub address: Option<SocketAddr>,
    /// The addresses it listens on besides HTTP.
    pub beside: Listening,
    /// The transport to it without a socket.
    pub door: Arc<dyn Door>,
    /// Creates tool servers with the rights of a key, for other listeners.
    pub offers: Offers,
    /// The changes made to the keys of the installation.
    pub keys: KeyChanges,
    /// The key files without a valid key.
    pub invalid: Vec<(FirstKey, KeyState)>,
    /// Resolves when it has ended, including calls and children.
    pub ended: Boxed<'static, Result<(), Failure>>,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("address", &self.address).finish_non_exhaustive()
    }
}
