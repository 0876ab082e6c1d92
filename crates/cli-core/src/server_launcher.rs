//! Port through which commands start a server. The application implements it.

use std::any::Any;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tool::{BoxFuture, PermissionLevel, Problem, Secret};

use super::build_facts::BuildFacts;
use super::command_error::{CommandError, ExitStatus};
use super::data_dir::{DataDirLock, FirstKey, KeyChanges, KeyState};
use super::server_transport::ServerTransport;
use config::{Config, ConfigErrors, Environment, LoadOptions, LoadReport};

/// Starts a server from its configuration.
pub trait ServerLauncher: Sync {
    /// Starts a server. Resolves when it accepts requests; callers wait for sources with
    /// [`ServerTransport::wait_for_sources`].
    ///
    /// # Errors
    /// Returns an error if it cannot start: the address is in use, or the store or record cannot be
    /// opened.
    fn launch_server(
        &self,
        start: LaunchOptions,
    ) -> BoxFuture<'_, Result<RunningServer, CommandError>>;

    /// Loads a configuration as a server would, without starting anything: reads tool files and
    /// plugins, and compares names.
    ///
    /// # Errors
    /// Returns an error if this machine cannot read them.
    fn review_config<'a>(
        &'a self,
        config: &'a Config,
        environment: &'a Arc<Environment>,
    ) -> BoxFuture<'a, Result<ConfigReview, CommandError>>;

    /// Returns the facts of the application's build.
    fn build_facts(&self) -> BuildFacts;
}

/// The findings of a server about a valid configuration.
#[derive(Debug, Clone, Default)]
pub struct ConfigReview {
    /// Sources and single tools that it would omit.
    pub left_out: Vec<Problem>,
    /// Names that match nothing, such as typos.
    pub warnings: Vec<Problem>,
}

/// The listen addresses besides HTTP; `None` disables a listener.
#[derive(Debug, Clone, Default)]
pub struct ListenerAddresses {
    /// The gRPC listener, whose callers send a key.
    pub grpc: Option<SocketAddr>,
    /// The gRPC listener for callers without a key, and the key they act with. Loopback only.
    pub plaintext_grpc: Option<(SocketAddr, Secret)>,
    /// The listener for nodes that connect.
    pub nodes: Option<SocketAddr>,
    /// The listener for nodes that register without a key, and the key of the one node they act as.
    /// Loopback only.
    pub legacy_nodes: Option<(SocketAddr, Secret)>,
}

/// The addresses that were bound besides HTTP.
#[derive(Debug, Clone, Copy, Default)]
pub struct BoundAddresses {
    /// The address for [`ListenerAddresses::grpc`].
    pub grpc: Option<SocketAddr>,
    /// The address for [`ListenerAddresses::plaintext_grpc`].
    pub plaintext_grpc: Option<SocketAddr>,
    /// The address for [`ListenerAddresses::nodes`].
    pub nodes: Option<SocketAddr>,
    /// The address for [`ListenerAddresses::legacy_nodes`].
    pub legacy_nodes: Option<SocketAddr>,
}

/// Creates the tool server with the rights of a key. Its type is the one of the application's gRPC server, which
/// commands build without.
pub struct ToolServerFactory(Box<OpenOffer>);

type OpenOffer = dyn Fn(&Secret) -> Result<Box<dyn Any + Send>, CommandError> + Send + Sync;

impl ToolServerFactory {
    /// Creates tool servers with `open`.
    pub fn new<T: Send + 'static>(
        open: impl Fn(&Secret) -> Result<T, CommandError> + Send + Sync + 'static,
    ) -> Self {
        Self(Box::new(move |key| Ok(Box::new(open(key)?))))
    }

    /// Creates the tool server with the rights of `key`.
    ///
    /// # Errors
    /// Returns an error if the key is invalid, or if the application's tool server is no `T`.
    pub fn open<T: 'static>(&self, key: &Secret) -> Result<T, CommandError> {
        let offer = (self.0)(key)?.downcast::<T>().map(|offer| *offer);
        offer.map_err(|_| {
            CommandError::new(ExitStatus::Failed, "this server cannot serve tools as a node")
        })
    }
}

impl fmt::Debug for ToolServerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Offers(…)")
    }
}

/// The options with which a server is started.
#[expect(clippy::struct_excessive_bools, reason = "independent switches of a start")]
#[derive(Debug, Clone)]
pub struct LaunchOptions {
    /// The usable part of the configuration.
    pub config: Config,
    /// The errors in the rest of the configuration, shown with the sources.
    pub config_errors: ConfigErrors,
    /// The options it was loaded with, used to reload it; `reading` is the first result.
    pub load_options: LoadOptions,
    /// The result of the first load.
    pub reading: LoadReport,
    /// The lock on the data directory, held as long as the server runs.
    pub data_dir_lock: Arc<DataDirLock>,
    /// Whether to listen on the configured address.
    pub listens: bool,
    /// Whether the start waits until each source was tried once, at most one second.
    pub waits_for_sources: bool,
    /// The listen addresses besides HTTP.
    pub extra_listeners: ListenerAddresses,
    /// The level of callers without a key; `None` rejects them.
    pub anonymous_level: Option<PermissionLevel>,
    /// Whether to recreate missing keys.
    pub recreates_keys: bool,
    /// Whether to trust a clock that is behind the latest recorded time.
    pub accepts_clock: bool,
    /// The token that stops the server.
    pub stop: CancellationToken,
}

impl LaunchOptions {
    /// Options for a server in this process only: no socket, no access without a key.
    ///
    /// # Errors
    /// Returns the errors if no part of the configuration is usable.
    pub fn new(
        options: LoadOptions,
        report: LoadReport,
        lock: Arc<DataDirLock>,
        stop: CancellationToken,
    ) -> Result<Self, CommandError> {
        let Some(config) = report.config.clone() else {
            return Err(CommandError::from_config_errors(report.errors));
        };
        let faults = report.errors.clone();
        let (beside, open) = (ListenerAddresses::default(), None);
        let (listen, make_keys, accept_clock) = (false, false, false);
        Ok(Self {
            config,
            config_errors: faults,
            load_options: options,
            reading: report,
            data_dir_lock: lock,
            listens: listen,
            waits_for_sources: false,
            extra_listeners: beside,
            anonymous_level: open,
            recreates_keys: make_keys,
            accepts_clock: accept_clock,
            stop,
        })
    }
}

/// A running server of this process.
pub struct RunningServer {
    /// The address it listens on.
    pub address: Option<SocketAddr>,
    /// The addresses it listens on besides HTTP.
    pub extra_addresses: BoundAddresses,
    /// Whether it has the web console.
    pub has_console: bool,
    /// The transport to it without a socket.
    pub transport: Arc<dyn ServerTransport>,
    /// Creates tool servers with the rights of a key, for other listeners.
    pub tool_server_factory: ToolServerFactory,
    /// The changes made to the keys of the installation.
    pub key_changes: KeyChanges,
    /// The key files without a valid key.
    pub invalid_keys: Vec<(FirstKey, KeyState)>,
    /// Resolves when it has ended, including calls and children.
    pub completion: BoxFuture<'static, Result<(), CommandError>>,
}

impl fmt::Debug for RunningServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("address", &self.address).finish_non_exhaustive()
    }
}
