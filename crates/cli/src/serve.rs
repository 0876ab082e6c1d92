//! Implements `toolkeep serve`, which runs a server.

mod announce;
mod run;
mod start_report;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use clap::builder::FalseyValueParser;
use tokio_util::sync::CancellationToken;
use tool::{Level, Secret};

use cli_core::background::{Starting, hold, until_unused, wait_for_directory};
use cli_core::context::Context;
use cli_core::data::{DataDir, Held, Server, key_in};
use cli_core::door::SourceNeed;
use cli_core::failure::{Exit, Failure};
use cli_core::signals::Signals;
use cli_core::ui::Ui;
use cli_core::wiring::{Places, Running, Start};
use config::Setting;
use run::until_told;
use start_report::{Started, left_out};

/// Start a server.
///
/// Reads `--config`, else `toolkeep.yaml` of the current folder, else `~/.config/toolkeep/toolkeep.yaml`. Without a
/// configuration it offers the built-in tools on 127.0.0.1:8080. It keeps everything in the data directory.
/// A background server that `toolkeep mcp` started there is ended first, and its clients go on with this one. On the first start it makes two keys there: owner.key, a person's, which may do
/// everything, and agent.key, for the agent, which approves nothing. A client sends one as
/// `Authorization: Bearer KEY`.
///
/// The configuration is followed: a change is taken whole or, where it has a fault, not at all.
/// SIGINT and SIGTERM end the server after the calls that run. TOOLKEEP_LOG sets how much is logged:
/// error, warn, info (the default), debug, trace.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep serve
  toolkeep serve --config toolkeep.yaml
  toolkeep serve --listen 127.0.0.1:9000 --data ./data
  toolkeep serve --listen 0.0.0.0:8000 --behind-tls --allowed-host core")]
pub(crate) struct Serve {
    /// The address to listen on [default: 127.0.0.1:8080].
    #[arg(long, env = "TOOLKEEP_LISTEN", value_name = "ADDRESS")]
    listen: Option<String>,
    /// A host name under which clients address the server, without port, beside localhost: in a network of containers the
    /// name of the service. May be given several times; adds to `server.allowed_hosts`.
    #[arg(
        long = "allowed-host",
        env = "TOOLKEEP_ALLOWED_HOSTS",
        value_name = "HOST",
        value_delimiter = ','
    )]
    allowed_hosts: Vec<String>,
    /// Listen beyond this machine in plain HTTP, since a TLS proxy or a private network of containers is in front. The same as
    /// `server.behind_tls`.
    #[arg(long, env = "TOOLKEEP_BEHIND_TLS", value_parser = FalseyValueParser::new())]
    behind_tls: bool,
    /// Listen for gRPC too, with spec 4's `CallFunction`: an address on loopback, such as 127.0.0.1:50050.
    /// Callers send their key as the metadata `authorization: Bearer KEY`.
    #[arg(long, env = "TOOLKEEP_GRPC_LISTEN", value_name = "ADDRESS")]
    grpc_listen: Option<SocketAddr>,
    /// Listen for gRPC of old clients, which send no key: an address on loopback, such as
    /// 127.0.0.1:50049. Whoever reaches it is the owner of `--plain-key`, and may do what that key may.
    #[arg(long, env = "TOOLKEEP_PLAIN_LISTEN", value_name = "ADDRESS", requires = "plain_key")]
    plain_listen: Option<SocketAddr>,
    /// The file with the key of those who come by `--plain-listen`.
    #[arg(long, env = "TOOLKEEP_PLAIN_KEY", value_name = "FILE", requires = "plain_listen")]
    plain_key: Option<PathBuf>,
    /// Wait for nodes that connect (`toolkeep node serve --connect`), so that they need no port of their
    /// own. Only a node that joined gets through, by its certificate.
    #[arg(long, env = "TOOLKEEP_NODE_LISTEN", value_name = "ADDRESS")]
    node_listen: Option<SocketAddr>,
    /// Let an old node register, which sends no key: an address on loopback, such as 127.0.0.1:8081, for its
    /// `ORG_SYSTEM_TOOLS_REGISTRY_URL`. Whoever reaches it is the node of `--old-node-key`, and no other.
    #[arg(
        long,
        env = "TOOLKEEP_OLD_NODE_LISTEN",
        value_name = "ADDRESS",
        requires = "old_node_key"
    )]
    old_node_listen: Option<SocketAddr>,
    /// The file with the key of that node: one with `nodes:register` and no right over other nodes.
    #[arg(long, env = "TOOLKEEP_OLD_NODE_KEY", value_name = "FILE", requires = "old_node_listen")]
    old_node_key: Option<PathBuf>,
    /// Let callers on this machine in without a key, as users with no rights. Only on loopback.
    #[arg(long)]
    open: bool,
    /// Make owner.key and agent.key anew where their files are missing. A new owner.key takes the place of the
    /// one that is missing, whose key is revoked.
    #[arg(long)]
    make_keys: bool,
    /// Trust the machine's clock although it is behind the latest time on record. For a clock that was
    /// ahead and is right now.
    #[arg(long)]
    accept_clock: bool,
    /// As `toolkeep mcp` starts it: on a free port of the loopback, ends some time after its last client.
    #[arg(long, hide = true, conflicts_with_all = ["listen", "open"])]
    background: bool,
}

/// The listen address of a background server. Clients find it in the data directory.
const ANY_PORT: &str = "127.0.0.1:0";

/// Delay after which a start counts as finished: the sources were listed, or take long.
const SETTLED: Duration = Duration::from_secs(1);

impl Serve {
    /// Whether the server is started by a client.
    pub(crate) fn is_background(&self) -> bool {
        self.background
    }

    pub(crate) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        if self.background {
            sandbox::process::leave_session().map_err(|error| {
                Failure::new(Exit::NoServer, format!("there is no session of its own: {error}"))
            })?;
        }
        let listen = if self.background { Some(ANY_PORT.to_owned()) } else { self.listen.clone() };
        let setting = Setting {
            allowed_hosts: self.allowed_hosts.clone(),
            behind_tls: self.behind_tls,
            ..context.setting(listen)
        };
        let reading = config::read(&setting);
        let Some(config) = &reading.config else {
            return Err(Failure::of_faults(reading.faults));
        };
        if self.open && !config.listen.ip().is_loopback() {
            let message = format!("`--open` on `{}` would let in anyone", config.listen);
            return Err(
                Failure::new(Exit::Usage, message).fix("listen on 127.0.0.1, or leave it out")
            );
        }
        let beside = self.beside()?;
        if !reading.faults.0.is_empty() {
            ui.note(&left_out(&reading.faults));
        }
        ui.notes(&config.notes);
        let data = DataDir::at(config.data.clone());
        let Some(held) = self.hold(&data).await? else {
            tracing::info!("another server was faster, and has the data directory");
            return Ok(Exit::Done);
        };
        self.serve(context, ui, (setting, reading, beside), held).await
    }

    /// Locks the data directory; `None` if another background server was faster.
    async fn hold(&self, data: &DataDir) -> Result<Option<(Arc<Held>, Option<Starting>)>, Failure> {
        if self.background {
            return Ok(wait_for_directory(data).await?.map(|held| (held, None)));
        }
        let (held, starting) = hold(data).await?;
        Ok(Some((held, Some(starting))))
    }

    async fn serve(
        &self,
        context: &Context<'_>,
        ui: &mut Ui,
        (setting, reading, beside): (config::Setting, config::Reading, Places),
        (held, starting): (Arc<Held>, Option<Starting>),
    ) -> Result<Exit, Failure> {
        let signals = Signals::new()?;
        let stop = CancellationToken::new();
        let mut server = announce::server(context, &reading, self.background);
        let start = Start::new(setting, reading, Arc::clone(&held), stop.clone())?;
        let (faults, idle) = (start.faults.clone(), start.config.server.idle_timeout);
        let start = Start {
            listen: true,
            settles: !self.background,
            beside,
            open: self.open.then_some(Level::User),
            make_keys: self.make_keys,
            accept_clock: self.accept_clock,
            ..start
        };
        let running = context.wiring.start(start).await?;
        self.told(&running, (&*held, &mut server), faults, ui)?;
        // The server can now be found.
        drop(starting);
        let door = Arc::clone(&running.door);
        let listed = async {
            if self.background {
                door.sources(SourceNeed::Overview, None).await;
                server.listed = true;
                // A stopping server has already removed its address.
                if !stop.is_cancelled()
                    && let Err(error) = held.tell_server(&server)
                {
                    tracing::warn!(%error, "clients wait for sources in vain");
                }
            }
            settle().await
        };
        let unused = async {
            if self.background {
                until_unused(held.data(), idle).await
            } else {
                std::future::pending().await
            }
        };
        let ended = tokio::select! {
            ended = until_told(running, (signals, unused), &held, &stop) => ended,
            never = listed => match never {},
        };
        held.forget_server();
        ended.map(|()| Exit::Done)
    }

    /// Returns the additional listeners; those in plaintext must be on loopback.
    fn beside(&self) -> Result<Places, Failure> {
        let plaintext = [self.grpc_listen, self.plain_listen, self.old_node_listen];
        let mut plaintext = plaintext.into_iter().flatten();
        if let Some(address) = plaintext.find(|at| !at.ip().is_loopback()) {
            let message = format!("`{address}` is open to the network, and this is plaintext");
            return Err(Failure::new(Exit::Usage, message).fix("listen on 127.0.0.1"));
        }
        let key = |path: &PathBuf| {
            let read = key_in(path).map_err(|error| {
                let message = format!("the key in `{}` cannot be read: {error}", path.display());
                Failure::new(Exit::Usage, message)
            });
            read.map(Secret::new)
        };
        let plain = self.plain_listen.zip(self.plain_key.as_ref());
        let with = |(address, path): (SocketAddr, &PathBuf)| Ok((address, key(path)?));
        let plain = plain.map(with).transpose()?;
        let old_nodes = self.old_node_listen.zip(self.old_node_key.as_ref());
        let old_nodes = old_nodes.map(with).transpose()?;
        Ok(Places { grpc: self.grpc_listen, plain, nodes: self.node_listen, old_nodes })
    }

    fn told(
        &self,
        running: &Running,
        (held, server): (&Held, &mut Server),
        faults: config::Faults,
        ui: &mut Ui,
    ) -> Result<(), Failure> {
        let Some(address) = running.address else {
            return Err(Failure::new(Exit::NoServer, "the server does not listen"));
        };
        server.address = address;
        held.tell_server(server)?;
        let data = held.data();
        for (path, mode) in data.open_key_files() {
            let path = path.display();
            ui.note(&format!(
                "warning: `{path}` can be read by others (mode {mode:03o})\n  = chmod 600 '{path}', and revoke the \
                 key if others are on this machine"
            ));
        }
        let started = Started::new((running, server), data, self.open, faults);
        ui.answer(&started, || started.text(data, running))
    }
}

/// Releases memory that only the start needed; never resolves.
async fn settle() -> Infallible {
    tokio::time::sleep(SETTLED).await;
    if let Err(error) = host::memory::forget_code() {
        tracing::debug!(%error, "what only a start needs stays in memory");
    }
    std::future::pending().await
}
