//! Child processes whose whole process tree ends with them, even if they are killed, if they fork,
//! or if Toolkeep dies.
//!
//! The binary runs itself a second time as a small supervisor ([`supervise`]). Its standard input
//! is one end of a socket pair whose other end Toolkeep holds; the command, its environment (secrets
//! too) and the three pipes of the real child travel over that socket, as a sealed memory file and
//! by descriptor passing. So no descriptor is ever made inheritable in Toolkeep, and concurrent
//! starts cannot leak into one another. The end of that socket means the end of the tree.

mod child;
mod detached;
mod lines;
mod lookup;
mod preexec;
mod spec;
mod supervise;
mod tail;
mod tree;
pub(crate) mod wire;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

pub use child::{Child, Exit, Used};
pub use detached::{Detached, ask_to_end, leave_session};
use host::descriptors::{CHILD, Claim};
pub use lines::{Line, Lines, OverlongLine};
pub use lookup::{LookupError, lookup};
pub use spec::{EnvValue, PASSED_ON, Spec};
pub use supervise::supervise;
pub use tail::{TAIL_BYTES, Tail};

/// Default time between SIGTERM and SIGKILL, also used when the control socket closes.
pub const GRACE: Duration = Duration::from_millis(500);

/// Starts children through the supervisor process.
#[derive(Debug, Clone)]
pub struct Launcher {
    program: PathBuf,
    args: Vec<OsString>,
}

/// Error of starting a child.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpawnError {
    /// The spec cannot be run as it stands; names the field.
    #[error("{field} {what}")]
    BadSpec {
        /// `command`, `args`, `env` or `cwd`.
        field: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// The supervisor did not start: out of processes, descriptors or memory, mostly.
    #[error("the process supervisor did not start: {0}")]
    Supervisor(String),
    /// The command itself did not start.
    #[error("cannot start `{command}`: {what}")]
    NotStarted {
        /// As it was given.
        command: String,
        /// The system's reason, and what to look at.
        what: String,
    },
}

impl Launcher {
    /// A launcher that runs `program` with `args`; that program must call [`supervise`] first thing.
    pub fn new(program: PathBuf, args: Vec<OsString>) -> Self {
        Self { program, args }
    }

    /// A launcher that runs this very binary, also where its file was replaced since the start.
    pub fn this_binary(args: Vec<OsString>) -> Self {
        Self::new(PathBuf::from("/proc/self/exe"), args)
    }

    /// Starts a child. Does not wait for the command to be there: [`Child::started`] tells, and
    /// [`Child::wait`] answers [`Exit::NotStarted`] where it never was.
    ///
    /// Must be called within a tokio runtime with I/O enabled.
    ///
    /// # Errors
    /// [`SpawnError::BadSpec`] and [`SpawnError::Supervisor`].
    pub fn spawn(&self, spec: &Spec) -> Result<Child, SpawnError> {
        let sealed = spec.sealed()?;
        self.launch(spec, &sealed).map_err(|error| SpawnError::Supervisor(error.to_string()))
    }

    fn launch(&self, spec: &Spec, sealed: &OwnedFd) -> io::Result<Child> {
        let claim = Claim::take(CHILD)?;
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        let (stdin_far, stdin) = io::pipe()?;
        let (stdout, stdout_far) = io::pipe()?;
        let (stderr, stderr_far) = io::pipe()?;
        let far = [sealed.as_fd(), stdin_far.as_fd(), stdout_far.as_fd(), stderr_far.as_fd()];
        // Queued before the supervisor exists: nothing is left to fail once it runs.
        wire::send_start(ours.as_fd(), &far)?;
        ours.set_nonblocking(true)?;
        let control = tokio::net::UnixStream::from_std(ours)?;

        #[expect(clippy::disallowed_methods, reason = "guard is the one crate that spawns")]
        let mut command = std::process::Command::new(&self.program);
        command
            .args(&self.args)
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let supervisor = tokio::process::Command::from(command).spawn()?;
        Child::new(
            (spec.command.clone(), claim),
            control,
            supervisor,
            [stdin.into(), stdout.into(), stderr.into()],
        )
    }
}
