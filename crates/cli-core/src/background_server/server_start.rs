//! Finds the server of a data directory, or starts one in the background.

use std::ffi::OsString;
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};

use sandbox::process::{DetachedProcess, request_termination};
use tokio::time::{sleep, timeout};

use super::client_lock::{ClientLock, IdleLock};
use super::lock_file::LockFile;
use super::{POLL_INTERVAL, START_TIMEOUT, ServerRequirements};
use crate::command_error::{CommandError, ExitStatus};
use crate::data_dir::{DataDir, DataDirLock, ServerDescriptor, describe_configuration};
use crate::logging;

/// The lock file of the process that starts a server, held until the server can be found.
const START_LOCK: &str = "start.lock";
/// Maximum number of failed starts before a client gives up.
const MAX_STARTS: usize = 3;
/// Variables that set flags of a client's commands and are removed for the server.
const CLIENT_VARIABLES: &[&str] = &[
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
pub struct BackgroundServer {
    data: DataDir,
    requirements: ServerRequirements,
    client_state: Mutex<ClientState>,
}

/// The client registration and the servers that this process started.
#[derive(Default)]
struct ClientState {
    /// The registration that keeps the server running.
    presence: Option<ClientLock>,
    /// Servers started by this process, to be reaped when they end.
    children: Vec<Child>,
}

/// One attempt to start a server.
struct StartAttempt {
    /// Keeps others from starting a server until this one can be found.
    _start_lock: LockFile,
    pid: u32,
}

impl BackgroundServer {
    pub(crate) fn new(data: DataDir, requirements: ServerRequirements) -> Self {
        Self { data, requirements, client_state: Mutex::default() }
    }

    /// The data directory of the server.
    pub(crate) fn data(&self) -> &DataDir {
        &self.data
    }

    /// Whether the server's process is still running.
    pub(super) fn is_alive(&self, server: &ServerDescriptor) -> bool {
        self.reap_children();
        server.is_alive()
    }

    /// Returns the server that holds the data directory, and starts one if there is none.
    ///
    /// # Errors
    /// Returns an error if it does not start, if another process holds the directory, or if its
    /// configuration differs.
    pub(crate) async fn find_server(&self) -> Result<ServerDescriptor, CommandError> {
        self.data.create_dir()?;
        match timeout(START_TIMEOUT, self.find_or_start()).await {
            Ok(found) => found,
            Err(_) => Err(occupied_error(&self.data)),
        }
    }

    async fn find_or_start(&self) -> Result<ServerDescriptor, CommandError> {
        let (mut attempt, mut starts) = (None, 0);
        loop {
            self.reap_children();
            if self.join_as_client()? {
                if let Some(server) = self.data.find_running_server() {
                    if self.replace_if_outdated(&server).await? {
                        continue;
                    }
                    self.check_configuration(&server)?;
                    return Ok(server);
                }
                attempt = attempt.filter(|it| self.is_starting(it));
                if attempt.is_none() && !self.data.is_locked() {
                    if starts == MAX_STARTS {
                        return Err(self.start_error());
                    }
                    attempt = self.start_server()?;
                    starts += usize::from(attempt.is_some());
                }
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Registers as a client; returns whether that succeeded.
    fn join_as_client(&self) -> Result<bool, CommandError> {
        let mut own = self.lock_state();
        if own.presence.is_none() {
            let client = ClientLock::join(&self.data);
            own.presence =
                client.map_err(|error| self.data.io_error("cannot be locked", &error))?;
        }
        Ok(own.presence.is_some())
    }

    /// Starts a server; `None` if another process is starting one.
    fn start_server(&self) -> Result<Option<StartAttempt>, CommandError> {
        let failed = |error| self.data.io_error("cannot be locked", &error);
        let Some(start) = LockFile::try_exclusive(&self.data, START_LOCK).map_err(failed)? else {
            return Ok(None);
        };
        let log = logging::open_background_log(&self.data)
            .map_err(|error| self.data.io_error("has a log that cannot be written", &error))?;
        let mut args: Vec<OsString> =
            ["serve", "--background", "--data"].map(OsString::from).to_vec();
        args.push(self.data.path().into());
        if let Some(file) = &self.requirements.configuration {
            args.extend(["--config".into(), file.into()]);
        }
        let child = DetachedProcess { args, removed_env: CLIENT_VARIABLES, log }
            .start_process()
            .map_err(|error| {
                let message = format!("the background server cannot be started: {error}");
                CommandError::new(ExitStatus::ServerUnavailable, message)
            })?;
        let pid = child.id();
        self.lock_state().children.push(child);
        Ok(Some(StartAttempt { _start_lock: start, pid }))
    }

    /// Whether a started server is still starting up.
    fn is_starting(&self, attempt: &StartAttempt) -> bool {
        let own = self.lock_state();
        own.children.iter().any(|child| child.id() == attempt.pid)
    }

    /// Reaps ended child processes.
    fn reap_children(&self) {
        self.lock_state().children.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }

    fn lock_state(&self) -> std::sync::MutexGuard<'_, ClientState> {
        self.client_state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_error(&self) -> CommandError {
        let log = logging::background_log_path(&self.data);
        let last = logging::last_lines(&log);
        let message = format!("the background server did not start: {last}");
        CommandError::new(ExitStatus::ServerUnavailable, message)
            .with_help(format!("see `{}`", log.display()))
    }

    /// Stops a background server of another version or configuration if no other client uses it.
    /// Returns whether to look for a server again.
    async fn replace_if_outdated(&self, server: &ServerDescriptor) -> Result<bool, CommandError> {
        let fits = server.version == env!("CARGO_PKG_VERSION")
            && server.configuration == self.requirements.configuration
            && server.variable_hashes == self.requirements.variable_hashes;
        if !server.is_background || fits {
            return Ok(false);
        }
        let failed = |error| self.data.io_error("cannot be locked", &error);
        self.lock_state().presence = None;
        let alone = IdleLock::try_lock(&self.data).map_err(failed)?;
        if alone.is_some() {
            stop_server(server).await?;
            return Ok(true);
        }
        // Another client uses it; register again, unless the server is ending just now.
        Ok(!self.join_as_client()?)
    }

    /// Checks the configuration of a background server; a server that a person started is accepted
    /// as it is.
    fn check_configuration(&self, server: &ServerDescriptor) -> Result<(), CommandError> {
        if !server.is_background || server.configuration == self.requirements.configuration {
            return Ok(());
        }
        let message = format!(
            "the background server of `{}` uses another configuration: {}; this client needs {}",
            self.data.path().display(),
            server.describe_configuration(),
            describe_configuration(self.requirements.configuration.as_deref()),
        );
        Err(CommandError::new(ExitStatus::ServerUnavailable, message).with_help(
            "use a separate data directory for each configuration (`data:` in the file, or `--data \
             DIR`), or stop the server with `toolkeep stop`",
        ))
    }

    /// Describes the joined server and its differences from this client.
    pub(crate) fn describe_server(&self, server: &ServerDescriptor) -> Vec<String> {
        let kind = if server.is_background { "background server" } else { "server" };
        let mut notes = vec![format!(
            "{kind} at {} (process {}), configuration: {}",
            server.local_url(),
            server.pid,
            server.describe_configuration()
        )];
        if server.configuration != self.requirements.configuration {
            let wanted = describe_configuration(self.requirements.configuration.as_deref());
            notes.push(format!(
                "the server uses another configuration than this client, which needs {wanted}"
            ));
        }
        if server.version != env!("CARGO_PKG_VERSION") {
            notes.push(format!(
                "the server has version {}, this program {}: run `toolkeep stop`, and the next \
                 client starts a new server",
                server.version,
                env!("CARGO_PKG_VERSION")
            ));
        }
        let differs = |(name, value): &(&String, &u64)| {
            self.requirements.variable_hashes.get(*name) != Some(value)
        };
        let others = server.variable_hashes.iter().filter(differs).map(|(name, _)| name.as_str());
        let others: Vec<_> = others.collect();
        if !others.is_empty() {
            notes.push(format!(
                "these environment variables differ between the server and this client: {}",
                others.join(", ")
            ));
        }
        notes
    }
}

/// Asks a server to stop and waits until it has ended.
pub async fn stop_server(server: &ServerDescriptor) -> Result<(), CommandError> {
    request_termination(server.pid).map_err(|error| {
        let message = format!("cannot stop the server (process {}): {error}", server.pid);
        CommandError::new(ExitStatus::ServerUnavailable, message)
    })?;
    let ended = timeout(START_TIMEOUT, async {
        while server.is_alive() {
            sleep(POLL_INTERVAL).await;
        }
    });
    ended.await.map_err(|_| {
        let message = format!("the server (process {}) did not stop in time", server.pid);
        CommandError::new(ExitStatus::ServerUnavailable, message)
            .with_help("its running calls may take long; try again")
    })
}

/// A lock that keeps others from starting a server as long as it lives.
#[derive(Debug)]
pub struct StartLock {
    _lock: Option<LockFile>,
}

/// Locks a data directory for a server that a person starts; `None` if it is in use. Replaces a
/// background server, whose clients find the new one.
pub async fn take_over_data_dir(
    data_dir: &DataDir,
) -> Result<Option<(Arc<DataDirLock>, StartLock)>, CommandError> {
    data_dir.create_dir()?;
    let failed = |error| data_dir.io_error("cannot be locked", &error);
    let mut start = LockFile::try_exclusive(data_dir, START_LOCK).map_err(failed)?;
    let Some(server) = data_dir.find_running_server().filter(|server| server.is_background) else {
        return Ok(data_dir.try_lock()?.map(|held| (Arc::new(held), StartLock { _lock: start })));
    };
    tracing::info!(pid = server.pid, "replacing the background server");
    stop_server(&server).await?;
    let taken = timeout(START_TIMEOUT, async {
        loop {
            if start.is_none() {
                start = LockFile::try_exclusive(data_dir, START_LOCK).map_err(failed)?;
            }
            if let Some(held) = data_dir.try_lock()? {
                return Ok::<_, CommandError>(held);
            }
            sleep(POLL_INTERVAL).await;
        }
    });
    match taken.await {
        Ok(held) => Ok(Some((Arc::new(held?), StartLock { _lock: start }))),
        Err(_) => Err(occupied_error(data_dir)),
    }
}

/// Locks a data directory for a background server; `None` if another one was faster.
pub async fn wait_for_data_dir(
    data_dir: &DataDir,
) -> Result<Option<Arc<DataDirLock>>, CommandError> {
    let held = timeout(START_TIMEOUT, async {
        loop {
            if let Some(held) = data_dir.try_lock()? {
                return Ok(Some(Arc::new(held)));
            }
            if data_dir.find_running_server().is_some() {
                return Ok(None);
            }
            sleep(POLL_INTERVAL).await;
        }
    });
    held.await.unwrap_or_else(|_| Err(occupied_error(data_dir)))
}

/// The error for a data directory that is held by a process other than a server.
pub fn occupied_error(data_dir: &DataDir) -> CommandError {
    let who = data_dir.holder_pid().map_or_else(String::new, |pid| format!(" (process {pid})"));
    let path = data_dir.path().display();
    let message = format!(
        "the data directory `{path}` is in use by another process{who} that is not a server"
    );
    CommandError::new(ExitStatus::ServerUnavailable, message).with_help(
        "wait until that process has ended, or choose another directory with `--data DIR`",
    )
}
