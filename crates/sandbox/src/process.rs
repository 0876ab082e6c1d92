//! Child processes whose whole process tree ends with them, even after a fork, SIGKILL or the death
//! of Toolkeep.
//!
//! The binary runs itself a second time as a small supervisor ([`run_supervisor`]). Its standard
//! input is one end of a socket pair; Toolkeep holds the other. The command, its environment with
//! secrets, and the child's three pipes are sent over that socket, as a sealed memory file and by
//! descriptor passing. So Toolkeep never makes a descriptor inheritable, and concurrent starts
//! cannot leak into one another. When the socket closes, the tree ends.

mod bounded_line_reader;
mod child_process;
mod command_spec;
mod detached_process;
mod output_tail;
mod pre_exec;
mod process_tree;
mod program_lookup;
mod supervisor;
pub(crate) mod supervisor_protocol;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

pub use bounded_line_reader::{Line, Lines, OverlongLine};
pub use child_process::{ChildExit, ChildProcess, ResourceUsage};
pub use command_spec::{CommandSpec, EnvValue, INHERITED_ENV};
pub use detached_process::{DetachedProcess, leave_session, request_termination};
use host::descriptors::{DESCRIPTORS_PER_CHILD, DescriptorClaim};
pub use output_tail::{DEFAULT_TAIL_BYTES, OutputTail};
pub use program_lookup::{LookupError, find_program};
pub use supervisor::run_supervisor;

/// Default time between SIGTERM and SIGKILL, also used when the control socket closes.
pub const DEFAULT_GRACE: Duration = Duration::from_millis(500);

/// Starts children through the supervisor process.
#[derive(Debug, Clone)]
pub struct ProcessLauncher {
    program: PathBuf,
    args: Vec<OsString>,
}

/// Error of starting a child.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpawnError {
    /// The spec cannot be executed; names the field.
    #[error("{field} {what}")]
    InvalidSpec {
        /// `command`, `args`, `env` or `cwd`.
        field: &'static str,
        /// Reason why the field is invalid.
        what: String,
    },
    /// The supervisor did not start: mostly for lack of processes, descriptors or memory.
    #[error("the process supervisor did not start: {0}")]
    SupervisorFailed(String),
    /// The command itself did not start.
    #[error("cannot start `{command}`: {what}")]
    CommandFailed {
        /// Command as configured.
        command: String,
        /// The system's reason, and what to check.
        what: String,
    },
}

impl ProcessLauncher {
    /// Creates a launcher that runs `program` with `args`. That program must call
    /// [`run_supervisor`] first.
    pub fn new(program: PathBuf, args: Vec<OsString>) -> Self {
        Self { program, args }
    }

    /// Creates a launcher that runs this binary, even if its file was replaced since the start.
    pub fn this_binary(args: Vec<OsString>) -> Self {
        Self::new(PathBuf::from("/proc/self/exe"), args)
    }

    /// Starts a child without waiting until the command runs: [`ChildProcess::wait_started`]
    /// reports that. [`ChildProcess::wait_ended`] returns [`ChildExit::NotStarted`] if it never
    /// ran.
    ///
    /// Must be called within a tokio runtime with I/O enabled.
    ///
    /// # Errors
    /// [`SpawnError::InvalidSpec`] and [`SpawnError::SupervisorFailed`].
    pub fn spawn_child(&self, spec: &CommandSpec) -> Result<ChildProcess, SpawnError> {
        let sealed = spec.to_sealed_memfd()?;
        self.spawn_supervisor(spec, &sealed)
            .map_err(|error| SpawnError::SupervisorFailed(error.to_string()))
    }

    fn spawn_supervisor(&self, spec: &CommandSpec, sealed: &OwnedFd) -> io::Result<ChildProcess> {
        let claim = DescriptorClaim::reserve_for_source(DESCRIPTORS_PER_CHILD)?;
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        let (stdin_far, stdin) = io::pipe()?;
        let (stdout, stdout_far) = io::pipe()?;
        let (stderr, stderr_far) = io::pipe()?;
        let far = [sealed.as_fd(), stdin_far.as_fd(), stdout_far.as_fd(), stderr_far.as_fd()];
        // Queued before the supervisor exists, so that nothing can fail once it runs.
        supervisor_protocol::send_start(ours.as_fd(), &far)?;
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
        ChildProcess::new(
            (spec.command.clone(), claim),
            control,
            supervisor,
            [stdin.into(), stdout.into(), stderr.into()],
        )
    }
}
