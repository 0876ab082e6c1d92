//! `toolkeep serve`.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use clap::builder::FalseyValueParser;
use serde::Serialize;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tool::{Level, Secret};

use super::context::Context;
use super::data::{DataDir, FirstKey, Held, KeyState, RECOVER, key_in};
use super::failure::{Exit, Failure};
use super::ui::Ui;
use super::wiring::{Places, Running, Start};
use crate::config::{self, Setting};

/// Start a server.
///
/// Without a configuration it offers the built-in tools on 127.0.0.1:8080 and keeps everything in the
/// data directory. On the first start it makes two keys there: owner.key, a person's, which may do
/// everything, and agent.key, for the agent, which approves nothing. A client sends one as
/// `Authorization: Bearer KEY`.
///
/// The configuration is followed: a change is taken whole or, where it has a fault, not at all.
/// SIGINT and SIGTERM end the server after the calls that run. TOOLKEEP_LOG sets how much is logged:
/// error, warn, info (the default), debug, trace.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep serve
  toolkeep serve --config toolkeep.yaml
  toolkeep serve --listen 127.0.0.1:9000 --data ./data
  toolkeep serve --listen 0.0.0.0:8000 --behind-tls --allowed-host core")]
pub(super) struct Serve {
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
}

/// When a start is over: the sources have been listed for the first time, or take long.
const SETTLED: Duration = Duration::from_secs(1);

#[derive(Debug, Serialize)]
struct Started {
    address: String,
    data: String,
    /// The file of the owner's key, where it holds a valid one.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner_key: Option<String>,
    /// The file of the agent's key, where it holds a valid one.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_key: Option<String>,
    open: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    grpc: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plain: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    old_nodes: Option<String>,
    faults: config::Faults,
}

/// What is served without. A fault may be of a source or of a setting, so it is told of neither.
fn left_out(faults: &config::Faults) -> String {
    format!("{faults}\n\nthe above is left out; the rest is served")
}

impl Serve {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let setting = Setting {
            allowed_hosts: self.allowed_hosts.clone(),
            behind_tls: self.behind_tls,
            ..context.setting(self.listen.clone())
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
        let held = hold(&DataDir::at(config.data.clone()))?;
        let signals = Signals::new()?;
        let stop = CancellationToken::new();
        let config = setting.file.as_ref().map(|file| context.path(file));
        let start = Start::new(setting, reading, Arc::clone(&held), stop.clone())?;
        let faults = start.faults.clone();
        let start = Start {
            listen: true,
            beside,
            open: self.open.then_some(Level::User),
            make_keys: self.make_keys,
            accept_clock: self.accept_clock,
            ..start
        };
        let running = context.wiring.start(start).await?;
        self.told(&running, (held.as_ref(), config), faults, ui)?;
        let ended = tokio::select! {
            ended = until_told(running, signals, &stop) => ended,
            never = settle() => match never {},
        };
        held.forget_server();
        ended.map(|()| Exit::Done)
    }

    /// Where else it listens; in plaintext on this machine alone.
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
        (held, config): (&Held, Option<PathBuf>),
        faults: config::Faults,
        ui: &mut Ui,
    ) -> Result<(), Failure> {
        let Some(address) = running.address else {
            return Err(Failure::new(Exit::NoServer, "the server does not listen"));
        };
        held.tell_server(address, config)?;
        let data = held.data();
        for (path, mode) in data.open_key_files() {
            let path = path.display();
            ui.note(&format!(
                "warning: `{path}` can be read by others (mode {mode:03o})\n  = chmod 600 '{path}', and revoke the \
                 key if others are on this machine"
            ));
        }
        let is_valid = |key| running.invalid.iter().all(|(invalid, _)| *invalid != key);
        let file = |key| is_valid(key).then(|| data.key_file(key).display().to_string());
        let started = Started {
            address: format!("http://{address}"),
            data: data.path().display().to_string(),
            owner_key: file(FirstKey::Owner),
            agent_key: file(FirstKey::Agent),
            open: self.open,
            grpc: running.beside.grpc.map(|address| address.to_string()),
            plain: running.beside.plain.map(|address| address.to_string()),
            nodes: running.beside.nodes.map(|address| address.to_string()),
            old_nodes: running.beside.old_nodes.map(|address| address.to_string()),
            faults,
        };
        ui.answer(&started, || text(&started, data, running))
    }
}

/// Gives back what only the start needed; never ends.
async fn settle() -> Infallible {
    tokio::time::sleep(SETTLED).await;
    if let Err(error) = guard::memory::forget_code() {
        tracing::debug!(%error, "what only a start needs stays in memory");
    }
    std::future::pending().await
}

/// The line of a key: its file where that holds a valid key, else what to do.
fn key_line(key: FirstKey, data: &DataDir, running: &Running) -> String {
    let path = data.key_file(key).display().to_string();
    match running.invalid.iter().find(|(invalid, _)| *invalid == key).map(|(_, state)| *state) {
        Some(KeyState::Missing) => {
            format!("none: {path} is not there; if you do not keep it elsewhere, {RECOVER}")
        }
        Some(KeyState::Invalid) => {
            format!("none: the key in {path} is not valid (unknown, expired or revoked); {RECOVER}")
        }
        Some(KeyState::Valid) | None if running.keys.made.contains(&key) => {
            let revoked = running.keys.revoked.join(", ");
            match (key, revoked.is_empty()) {
                (FirstKey::Owner, false) => {
                    format!("{path}  (new; it replaces {revoked}, which is revoked)")
                }
                _ => format!("{path}  (new)"),
            }
        }
        Some(KeyState::Valid) | None => path,
    }
}

fn text(started: &Started, held: &DataDir, running: &Running) -> String {
    let Started { address, data, .. } = started;
    let mut text = format!(
        "toolkeep {} listens on {address}\n\
         \n  data   {data}\
         \n  owner  {}\
         \n  agent  {}\n",
        env!("CARGO_PKG_VERSION"),
        key_line(FirstKey::Owner, held, running),
        key_line(FirstKey::Agent, held, running),
    );
    if let Some(grpc) = &started.grpc {
        let _infallible = write!(text, "\ngRPC is spoken on {grpc}.\n");
    }
    if let Some(plain) = &started.plain {
        let _infallible =
            write!(text, "\nOn {plain} whoever comes has the rights of --plain-key.\n");
    }
    if let Some(nodes) = &started.nodes {
        let _infallible = write!(text, "\nNodes connect to {nodes}.\n");
    }
    if let Some(old) = &started.old_nodes {
        let _infallible = write!(text, "\nOn {old} whoever comes is the node of --old-node-key.\n");
    }
    if started.open {
        text += "\nWithout a key everyone on this machine is a user: --open.\n";
    }
    // To be copied as it stands: with the program as it was called, whatever the folder is named.
    let (program, data) = (quoted(&program()), quoted(data));
    let _infallible =
        write!(text, "\nTry in another terminal:\n  {program} --data {data} tool list\n");
    text
}

/// This program, as whoever started it wrote it.
fn program() -> String {
    let program = std::env::args_os().next().filter(|program| !program.is_empty());
    program.map_or_else(|| "toolkeep".to_owned(), |it| it.to_string_lossy().into_owned())
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    if word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// How often the directory of a server that is dead is tried to be held, and how far apart.
const TRIES: usize = 60;
const AGAIN: Duration = Duration::from_millis(50);

pub(super) fn hold(data: &DataDir) -> Result<Arc<Held>, Failure> {
    for _ in 0..TRIES {
        if let Some(held) = data.hold()? {
            return Ok(Arc::new(held));
        }
        // A server that was killed while it started a program leaves its hold to that for a moment.
        if data.server().is_none_or(|server| server.is_alive()) {
            break;
        }
        std::thread::sleep(AGAIN);
    }
    let path = data.path().display();
    let who = match data.server() {
        Some(server) => format!(" by the server at {} (process {})", server.url(), server.pid),
        None => " by another process".to_owned(),
    };
    let message = format!("the data directory `{path}` is held{who}");
    Err(Failure::new(Exit::NoServer, message)
        .fix("end that one, or choose another directory with `--data DIR`"))
}

/// SIGINT and SIGTERM.
pub(super) struct Signals([Signal; 2]);

impl Signals {
    pub(super) fn new() -> Result<Self, Failure> {
        let one = |kind| {
            signal(kind).map_err(|error| {
                Failure::new(Exit::NoServer, format!("signals cannot be received: {error}"))
            })
        };
        Ok(Self([one(SignalKind::interrupt())?, one(SignalKind::terminate())?]))
    }

    pub(super) async fn any(&mut self) {
        let Self([interrupt, terminate]) = self;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}

/// Runs until a signal comes or the server ends by itself. A second signal does not wait for calls.
async fn until_told(
    running: Running,
    mut signals: Signals,
    stop: &CancellationToken,
) -> Result<(), Failure> {
    let mut ended = running.ended;
    tokio::select! {
        ended = &mut ended => return ended,
        () = signals.any() => {}
    }
    tracing::info!("stopping; once more ends at once");
    stop.cancel();
    tokio::select! {
        ended = &mut ended => ended,
        () = signals.any() => Err(Failure::new(Exit::Failed, "ended at once; calls that ran were cut off")),
    }
}

#[cfg(test)]
mod tests {
    use super::{left_out, quoted};
    use crate::config::{Fault, Faults};

    /// A setting of the environment is no source.
    #[test]
    fn a_faulty_setting_is_not_told_as_a_source_that_is_left_out() {
        let fault = Fault::flag("TOOL_EXECUTION_TIMEOUT", "`2m` is no time for a call");
        let told = left_out(&Faults::one(fault));
        assert!(told.contains("`2m` is no time") && !told.contains("source"), "{told}");
        assert!(told.ends_with("\n\nthe above is left out; the rest is served"));
    }

    #[test]
    fn words_survive_the_shell() {
        assert_eq!(quoted("/a/b-c_d.e"), "/a/b-c_d.e");
        assert_eq!(quoted("/a b/it's"), r"'/a b/it'\''s'");
    }
}
