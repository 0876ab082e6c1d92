//! Implements `toolkeep serve`, which runs a server.

mod server_description;
mod shutdown;
mod start_report;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use clap::builder::FalseyValueParser;
use tokio_util::sync::CancellationToken;
use tool::{PermissionLevel, Secret};

use cli_core::background_server::{
    StartLock, acquire_data_dir, wait_for_data_dir, wait_until_idle,
};
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::data_dir::{DataDir, DataDirLock, ServerDescriptor, read_key_file};
use cli_core::printer::Printer;
use cli_core::server_launcher::{LaunchOptions, ListenerAddresses, RunningServer};
use cli_core::server_transport::SourceNeed;
use cli_core::signals::ShutdownSignals;
use config::LoadOptions;
use shutdown::run_until_signal;
use start_report::{StartReport, format_left_out};

/// Start a Toolkeep server.
///
/// Reads `--config`, else `toolkeep.yaml` of the current directory, else
/// `~/.config/toolkeep/toolkeep.yaml`. Without a configuration it serves the built-in tools on
/// 127.0.0.1:8080. All state is stored in the data directory. A background server of `toolkeep mcp`
/// is stopped first, and its clients reconnect to this server.
///
/// The first start creates two keys in the data directory: owner.key for a person, with all rights,
/// and agent.key for an agent, without approval rights. Clients send a key as `Authorization:
/// Bearer KEY`.
///
/// Toolkeep watches the configuration and applies changes atomically. If the new file is invalid,
/// the last valid configuration stays active. SIGINT and SIGTERM stop the server after the running
/// calls have ended. TOOLKEEP_LOG sets the log level: error, warn, info (the default), debug,
/// trace.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep serve
  toolkeep serve --config toolkeep.yaml
  toolkeep serve --listen 127.0.0.1:9000 --data ./data
  toolkeep serve --listen 0.0.0.0:8000 --behind-tls --allowed-host core")]
pub(crate) struct ServeArgs {
    /// Address to listen on [default: 127.0.0.1:8080].
    #[arg(long, env = "TOOLKEEP_LISTEN", value_name = "ADDRESS")]
    listen: Option<String>,
    /// Additional host name of the server, without port, such as the service name in a container
    /// network. `localhost` is always allowed. Can be repeated; extends `server.allowed_hosts`.
    #[arg(
        long = "allowed-host",
        env = "TOOLKEEP_ALLOWED_HOSTS",
        value_name = "HOST",
        value_delimiter = ','
    )]
    allowed_hosts: Vec<String>,
    /// Allow plain HTTP on non-loopback addresses, because a TLS proxy or a private container
    /// network protects it. Same as `server.behind_tls`.
    #[arg(long, env = "TOOLKEEP_BEHIND_TLS", value_parser = FalseyValueParser::new())]
    behind_tls: bool,
    /// Loopback address for gRPC with the `CallFunction` method of the cluster tools, such as
    /// 127.0.0.1:50050. Clients send their key as metadata `authorization: Bearer KEY`.
    #[arg(long, env = "TOOLKEEP_GRPC_LISTEN", value_name = "ADDRESS")]
    grpc_listen: Option<SocketAddr>,
    /// Loopback address for gRPC of clients that send no key, such as 127.0.0.1:50049. Every client
    /// of this address has the rights of `--plain-key`.
    #[arg(long, env = "TOOLKEEP_PLAIN_LISTEN", value_name = "ADDRESS", requires = "plain_key")]
    plain_listen: Option<SocketAddr>,
    /// File with the key for clients of `--plain-listen`.
    #[arg(long, env = "TOOLKEEP_PLAIN_KEY", value_name = "FILE", requires = "plain_listen")]
    plain_key: Option<PathBuf>,
    /// Address for nodes that connect to the server (`toolkeep node serve --connect`) and so need
    /// no open port. A node must have joined; its certificate is verified.
    #[arg(long, env = "TOOLKEEP_NODE_LISTEN", value_name = "ADDRESS")]
    node_listen: Option<SocketAddr>,
    /// Loopback address where a legacy node registers without a key, such as 127.0.0.1:8081, for
    /// its `ORG_SYSTEM_TOOLS_REGISTRY_URL`. Every client of this address is the node of
    /// `--old-node-key`.
    #[arg(
        long,
        env = "TOOLKEEP_OLD_NODE_LISTEN",
        value_name = "ADDRESS",
        requires = "old_node_key"
    )]
    old_node_listen: Option<SocketAddr>,
    /// File with the key of the legacy node. The key has the right `nodes:register` and no rights
    /// over other nodes.
    #[arg(long, env = "TOOLKEEP_OLD_NODE_KEY", value_name = "FILE", requires = "old_node_listen")]
    old_node_key: Option<PathBuf>,
    /// Allow callers on this machine without a key, with the level of a user and no rights.
    /// Loopback only.
    #[arg(long)]
    open: bool,
    /// Create owner.key and agent.key again if their files are missing. A new owner.key replaces
    /// the missing one, which is revoked.
    #[arg(long)]
    make_keys: bool,
    /// Accept a system clock that is behind the latest recorded time, because the clock was ahead
    /// before and is correct now.
    #[arg(long)]
    accept_clock: bool,
    /// Start as a background server of `toolkeep mcp`: on a free loopback port, until its clients
    /// are gone.
    #[arg(long, hide = true, conflicts_with_all = ["listen", "open"])]
    background: bool,
}

/// The listen address of a background server. Clients find it in the data directory.
const ANY_PORT: &str = "127.0.0.1:0";

/// Delay after which a start counts as finished: the sources were listed, or take long.
const STARTUP_MEMORY_DELAY: Duration = Duration::from_secs(1);

impl ServeArgs {
    /// Whether the server is started by a client.
    pub(crate) fn is_background(&self) -> bool {
        self.background
    }

    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        if self.background {
            sandbox::process::leave_session().map_err(|error| {
                CommandError::new(
                    ExitStatus::ServerUnavailable,
                    format!("cannot start a session of its own: {error}"),
                )
            })?;
        }
        let listen = if self.background { Some(ANY_PORT.to_owned()) } else { self.listen.clone() };
        let setting = LoadOptions {
            allowed_hosts: self.allowed_hosts.clone(),
            behind_tls: self.behind_tls,
            ..context.load_options(listen)
        };
        let reading = config::load_config(&setting);
        let Some(config) = &reading.config else {
            return Err(CommandError::from_config_errors(reading.errors));
        };
        if self.open && !config.listen_address.ip().is_loopback() {
            let message = format!(
                "`--open` on `{}` would allow everyone in the network",
                config.listen_address
            );
            return Err(CommandError::new(ExitStatus::UsageError, message)
                .with_help("listen on 127.0.0.1, or omit `--open`"));
        }
        let beside = self.extra_listeners()?;
        if !reading.errors.0.is_empty() {
            ui.print_note(&format_left_out(&reading.errors));
        }
        ui.print_config_notes(&config.notes);
        let data = DataDir::new(config.data_dir.clone());
        let Some(held) = self.lock_data_dir(&data).await? else {
            tracing::info!("another server has locked the data directory first");
            return Ok(ExitStatus::Success);
        };
        self.serve_until_stopped(context, ui, (setting, reading, beside), held).await
    }

    /// Locks the data directory; `None` if another background server was faster.
    async fn lock_data_dir(
        &self,
        data: &DataDir,
    ) -> Result<Option<(Arc<DataDirLock>, Option<StartLock>)>, CommandError> {
        if self.background {
            return Ok(wait_for_data_dir(data).await?.map(|held| (held, None)));
        }
        let (held, starting) = acquire_data_dir(data).await?;
        Ok(Some((held, Some(starting))))
    }

    async fn serve_until_stopped(
        &self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
        (setting, reading, beside): (config::LoadOptions, config::LoadReport, ListenerAddresses),
        (held, starting): (Arc<DataDirLock>, Option<StartLock>),
    ) -> Result<ExitStatus, CommandError> {
        let signals = ShutdownSignals::new()?;
        let stop = CancellationToken::new();
        let mut server = server_description::describe_server(context, &reading, self.background);
        let start = LaunchOptions::new(setting, reading, Arc::clone(&held), stop.clone())?;
        let (faults, idle) = (start.config_errors.clone(), start.config.server.idle_timeout);
        let start = LaunchOptions {
            listens: true,
            waits_for_sources: !self.background,
            extra_listeners: beside,
            anonymous_level: self.open.then_some(PermissionLevel::User),
            recreates_keys: self.make_keys,
            accepts_clock: self.accept_clock,
            ..start
        };
        let running = context.launcher.launch_server(start).await?;
        self.print_started(&running, (&*held, &mut server), faults, ui)?;
        // The server can now be found.
        drop(starting);
        let door = Arc::clone(&running.transport);
        let listed = async {
            if self.background {
                door.wait_for_sources(SourceNeed::Overview, None).await;
                server.has_listed_sources = true;
                // A stopping server has already removed its address.
                if !stop.is_cancelled()
                    && let Err(error) = held.publish_server(&server)
                {
                    tracing::warn!(%error, "cannot publish that the sources are listed; clients \
                                            wait until their timeout");
                }
            }
            release_startup_memory().await
        };
        let unused = async {
            if self.background {
                wait_until_idle(held.dir(), idle).await
            } else {
                std::future::pending().await
            }
        };
        let ended = tokio::select! {
            ended = run_until_signal(running, (signals, unused), &held, &stop) => ended,
            never = listed => match never {},
        };
        held.unpublish_server();
        ended.map(|()| ExitStatus::Success)
    }

    /// Returns the additional listeners; those in plaintext must be on loopback.
    fn extra_listeners(&self) -> Result<ListenerAddresses, CommandError> {
        let plaintext = [self.grpc_listen, self.plain_listen, self.old_node_listen];
        let mut plaintext = plaintext.into_iter().flatten();
        if let Some(address) = plaintext.find(|at| !at.ip().is_loopback()) {
            let message = format!(
                "`{address}` is not a loopback address, and this listener is \
                                   plaintext"
            );
            return Err(
                CommandError::new(ExitStatus::UsageError, message).with_help("listen on 127.0.0.1")
            );
        }
        let key = |path: &PathBuf| {
            let read = read_key_file(path).map_err(|error| {
                let message = format!("cannot read the key in `{}`: {error}", path.display());
                CommandError::new(ExitStatus::UsageError, message)
            });
            read.map(Secret::new)
        };
        let plain = self.plain_listen.zip(self.plain_key.as_ref());
        let with = |(address, path): (SocketAddr, &PathBuf)| Ok((address, key(path)?));
        let plain = plain.map(with).transpose()?;
        let old_nodes = self.old_node_listen.zip(self.old_node_key.as_ref());
        let old_nodes = old_nodes.map(with).transpose()?;
        Ok(ListenerAddresses {
            grpc: self.grpc_listen,
            plaintext_grpc: plain,
            nodes: self.node_listen,
            legacy_nodes: old_nodes,
        })
    }

    fn print_started(
        &self,
        running: &RunningServer,
        (held, server): (&DataDirLock, &mut ServerDescriptor),
        faults: config::ConfigErrors,
        ui: &mut Printer,
    ) -> Result<(), CommandError> {
        let Some(address) = running.address else {
            return Err(CommandError::new(
                ExitStatus::ServerUnavailable,
                "the server is not listening",
            ));
        };
        server.address = address;
        held.publish_server(server)?;
        let data = held.dir();
        for (path, mode) in data.open_key_files() {
            let path = path.display();
            ui.print_note(&format!(
                "warning: `{path}` is readable by other users (mode {mode:03o})\n  help: chmod 600 \
                 '{path}', and revoke the key if this machine has other users"
            ));
        }
        let started = StartReport::new((running, server), data, self.open, faults);
        ui.print_result(&started, || started.format_text(data, running))
    }
}

/// Releases memory that only the start needed; never resolves.
async fn release_startup_memory() -> Infallible {
    tokio::time::sleep(STARTUP_MEMORY_DELAY).await;
    if let Err(error) = host::memory::release_code_pages() {
        tracing::debug!(%error, "memory used only during startup stays allocated");
    }
    std::future::pending().await
}
