//! Finding of a data directory's server, and its start in the background.

use std::ffi::OsString;
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};

use sandbox::process::{Detached, ask_to_end};
use tokio::time::{sleep, timeout};

use super::clients::{Client, Unused};
use super::lock::Lock;
use super::{LOOK, WAIT, Wanted};
use crate::data::{DataDir, Held, Server, named};
use crate::failure::{Exit, Failure};
use crate::logging;

/// The lock file of the process that starts a server, held until the server can be found.
const START: &str = "start.lock";
/// Maximum number of failed starts before a client gives up.
const STARTS: usize = 3;
/// Variables that set flags of a client's commands and are removed for the server.
const OWN_VARIABLES: &[&str] = &[
    "TOOLKEEP_CONFIG",
    "TOOLKEEP_DATA",
    "TOOLKEEP_URL",
    "TOOLKEEP_KEY",
    "TOOLKEEP_SOURCE_TIMEOUT",
    "TOOLKEEP_LISTEN",
    "TOOLKEEP_ALLOWED_HOSTS",
    "TOOLKEEP_BEHIND_TLS",
    "TOOLKEEP_GRPC_LISTEN",
    "TOOLKEEP_PLAIN_LISTEN",
    "TOOLKEEP_PLAIN_KEY",
    "TOOLKEEP_NODE_LISTEN",
    "TOOLKEEP_OLD_NODE_LISTEN",
    "TOOLKEEP_OLD_NODE_KEY",
];

/// The background server of a data directory, from the view of one client.
#[expect(missing_debug_implementations, reason = "its lock has none")]
pub struct Background {
    data: DataDir,
    wanted: Wanted,
    own: Mutex<Own>,
}

/// The client registration and the servers that this process started.
#[derive(Default)]
struct Own {
    /// The registration that keeps the server running.
    client: Option<Client>,
    /// Servers started by this process, to be reaped when they end.
    started: Vec<Child>,
}

/// One attempt to start a server.
struct Attempt {
    /// Keeps others from starting a server until this one can be found.
    _start: Lock,
    pid: u32,
}

impl Background {
    pub(crate) fn new(data: DataDir, wanted: Wanted) -> Self {
        Self { data, wanted, own: Mutex::default() }
    }

    /// The data directory of the server.
    pub(crate) fn data(&self) -> &DataDir {
        &self.data
    }

    /// Whether the server's process is still running.
    pub(super) fn is_alive(&self, server: &Server) -> bool {
        self.reap();
        server.is_alive()
    }

    /// Returns the server that holds the data directory, and starts one if there is none.
    ///
    /// # Errors
    /// Returns an error if it does not start, if another process holds the directory, or if its
    /// configuration differs.
    pub(crate) async fn server(&self) -> Result<Server, Failure> {
        self.data.make()?;
        match timeout(WAIT, self.find_or_start()).await {
            Ok(found) => found,
            Err(_) => Err(occupied(&self.data)),
        }
    }

    async fn find_or_start(&self) -> Result<Server, Failure> {
        let (mut attempt, mut starts) = (None, 0);
        loop {
            self.reap();
            if self.keep()? {
                if let Some(server) = self.data.running_server() {
                    if self.replaces(&server).await? {
                        continue;
                    }
                    self.check(&server)?;
                    return Ok(server);
                }
                attempt = attempt.filter(|it| self.is_starting(it));
                if attempt.is_none() && !self.data.is_held() {
                    if starts == STARTS {
                        return Err(self.not_started());
                    }
                    attempt = self.start()?;
                    starts += usize::from(attempt.is_some());
                }
            }
            sleep(LOOK).await;
        }
    }

    /// Registers as a client; returns whether that succeeded.
    fn keep(&self) -> Result<bool, Failure> {
        let mut own = self.own();
        if own.client.is_none() {
            let client = Client::join(&self.data);
            own.client = client.map_err(|error| self.data.failed("cannot be locked", &error))?;
        }
        Ok(own.client.is_some())
    }

    /// Starts a server; `None` if another process is starting one.
    fn start(&self) -> Result<Option<Attempt>, Failure> {
        let failed = |error| self.data.failed("cannot be locked", &error);
        let Some(start) = Lock::exclusive(&self.data, START).map_err(failed)? else {
            return Ok(None);
        };
        let log = logging::background_log(&self.data)
            .map_err(|error| self.data.failed("has a log that cannot be written", &error))?;
        let mut args: Vec<OsString> =
            ["serve", "--background", "--data"].map(OsString::from).to_vec();
        args.push(self.data.path().into());
        if let Some(file) = &self.wanted.configuration {
            args.extend(["--config".into(), file.into()]);
        }
        let child = Detached { args, without: OWN_VARIABLES, log }.start().map_err(|error| {
            let message = format!("the background server cannot be started: {error}");
            Failure::new(Exit::NoServer, message)
        })?;
        let pid = child.id();
        self.own().started.push(child);
        Ok(Some(Attempt { _start: start, pid }))
    }

    /// Whether a started server is still starting up.
    fn is_starting(&self, attempt: &Attempt) -> bool {
        let own = self.own();
        own.started.iter().any(|child| child.id() == attempt.pid)
    }

    /// Reaps ended child processes.
    fn reap(&self) {
        self.own().started.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }

    fn own(&self) -> std::sync::MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn not_started(&self) -> Failure {
        let log = logging::background_path(&self.data);
        let last = logging::last_lines(&log);
        let message = format!("the background server does not start: {last}");
        Failure::new(Exit::NoServer, message).fix(format!("see `{}`", log.display()))
    }

    /// Stops a background server of another version or configuration if no other client uses it.
    /// Returns whether to look for a server again.
    async fn replaces(&self, server: &Server) -> Result<bool, Failure> {
        let fits = server.version == env!("CARGO_PKG_VERSION")
            && server.configuration == self.wanted.configuration
            && server.variables == self.wanted.variables;
        if !server.background || fits {
            return Ok(false);
        }
        let failed = |error| self.data.failed("cannot be locked", &error);
        self.own().client = None;
        let alone = Unused::now(&self.data).map_err(failed)?;
        if alone.is_some() {
            end(server).await?;
            return Ok(true);
        }
        // Another client uses it; register again, unless the server is ending just now.
        Ok(!self.keep()?)
    }

    /// Checks the configuration of a background server; a server that a person started is accepted
    /// as it is.
    fn check(&self, server: &Server) -> Result<(), Failure> {
        if !server.background || server.configuration == self.wanted.configuration {
            return Ok(());
        }
        let message = format!(
            "the background server of `{}` has another configuration: {}; this client wants {}",
            self.data.path().display(),
            server.configuration(),
            named(self.wanted.configuration.as_deref()),
        );
        Err(Failure::new(Exit::NoServer, message).fix(
            "give each configuration a data directory of its own, by `data:` in the file or `--data DIR`; \
             `toolkeep stop` ends the server that runs",
        ))
    }

    /// Describes the joined server and its differences from this client.
    pub(crate) fn notes(&self, server: &Server) -> Vec<String> {
        let kind = if server.background { "background server" } else { "server" };
        let mut notes = vec![format!(
            "{kind} at {} (process {}), configuration: {}",
            server.url(),
            server.pid,
            server.configuration()
        )];
        if server.configuration != self.wanted.configuration {
            let wanted = named(self.wanted.configuration.as_deref());
            notes.push(format!(
                "that server does not have the configuration of this client: {wanted}"
            ));
        }
        if server.version != env!("CARGO_PKG_VERSION") {
            notes.push(format!(
                "that server has version {}, this program {}: `toolkeep stop` ends it, and the next client starts a new one",
                server.version,
                env!("CARGO_PKG_VERSION")
            ));
        }
        let differs =
            |(name, value): &(&String, &u64)| self.wanted.variables.get(*name) != Some(value);
        let others = server.variables.iter().filter(differs).map(|(name, _)| name.as_str());
        let others: Vec<_> = others.collect();
        if !others.is_empty() {
            notes.push(format!(
                "that server has other values of these environment variables than this client: {}",
                others.join(", ")
            ));
        }
        notes
    }
}

/// Asks a server to stop and waits until it has ended.
pub async fn end(server: &Server) -> Result<(), Failure> {
    ask_to_end(server.pid).map_err(|error| {
        let message = format!("the server (process {}) cannot be ended: {error}", server.pid);
        Failure::new(Exit::NoServer, message)
    })?;
    let ended = timeout(WAIT, async {
        while server.is_alive() {
            sleep(LOOK).await;
        }
    });
    ended.await.map_err(|_| {
        let message = format!("the server (process {}) did not end in time", server.pid);
        Failure::new(Exit::NoServer, message).fix("its calls may take long; try again")
    })
}

/// A lock that keeps others from starting a server as long as it lives.
#[derive(Debug)]
pub struct Starting {
    _lock: Option<Lock>,
}

/// Locks a data directory for a server that a person starts; `None` if it is in use. Replaces a
/// background server, whose clients find the new one.
pub async fn take_over(data: &DataDir) -> Result<Option<(Arc<Held>, Starting)>, Failure> {
    data.make()?;
    let failed = |error| data.failed("cannot be locked", &error);
    let mut start = Lock::exclusive(data, START).map_err(failed)?;
    let Some(server) = data.running_server().filter(|server| server.background) else {
        return Ok(data.hold()?.map(|held| (Arc::new(held), Starting { _lock: start })));
    };
    tracing::info!(pid = server.pid, "takes the place of the background server");
    end(&server).await?;
    let taken = timeout(WAIT, async {
        loop {
            if start.is_none() {
                start = Lock::exclusive(data, START).map_err(failed)?;
            }
            if let Some(held) = data.hold()? {
                return Ok::<_, Failure>(held);
            }
            sleep(LOOK).await;
        }
    });
    match taken.await {
        Ok(held) => Ok(Some((Arc::new(held?), Starting { _lock: start }))),
        Err(_) => Err(occupied(data)),
    }
}

/// Locks a data directory for a background server; `None` if another one was faster.
pub async fn wait_for_directory(data: &DataDir) -> Result<Option<Arc<Held>>, Failure> {
    let held = timeout(WAIT, async {
        loop {
            if let Some(held) = data.hold()? {
                return Ok(Some(Arc::new(held)));
            }
            if data.running_server().is_some() {
                return Ok(None);
            }
            sleep(LOOK).await;
        }
    });
    held.await.unwrap_or_else(|_| Err(occupied(data)))
}

/// The error for a data directory that is held by a process other than a server.
pub fn occupied(data: &DataDir) -> Failure {
    let who = data.holder().map_or_else(String::new, |pid| format!(" (process {pid})"));
    let path = data.path().display();
    let message = format!(
        "another process{who} holds the data directory `{path}`, and it is no server that others can use"
    );
    Failure::new(Exit::NoServer, message)
        .fix("wait until that command has ended, or choose another directory with `--data DIR`")
}
