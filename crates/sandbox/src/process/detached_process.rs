//! Processes that outlive their starter: a server in the background.
//!
//! Such a process shares nothing with its starter: no standard stream, terminal, descriptor or
//! folder.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal};

use super::pre_exec;

/// A process to start in the background.
#[derive(Debug)]
pub struct DetachedProcess {
    /// Arguments, after the program's name.
    pub args: Vec<OsString>,
    /// Variables of this process that it does not inherit; it inherits all others.
    pub removed_env: &'static [&'static str],
    /// Receives its standard output and standard error.
    pub log: File,
}

impl DetachedProcess {
    /// Starts this binary with these arguments, even if its file was replaced since the start. The
    /// child runs in `/` and must call [`leave_session`] first.
    ///
    /// # Errors
    /// Fails if no process can be started.
    pub fn start_process(self) -> io::Result<Child> {
        // Inherited descriptors, such as a pipe of the starting program, would stay open as long as
        // the child runs.
        pre_exec::set_cloexec_inherited()?;
        #[expect(clippy::disallowed_methods, reason = "guard is the one crate that spawns")]
        let mut command = std::process::Command::new(PathBuf::from("/proc/self/exe"));
        for name in self.removed_env {
            command.env_remove(name);
        }
        command
            .args(self.args)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::from(self.log.try_clone()?))
            .stderr(Stdio::from(self.log))
            .spawn()
    }
}

/// Moves this process into its own session, out of reach of its starter's terminal and process
/// group.
///
/// # Errors
/// Fails if it already leads a process group.
pub fn leave_session() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

/// Sends SIGTERM to a process.
///
/// # Errors
/// Fails if there is no such process, or if it belongs to another user.
pub fn request_termination(pid: u32) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::kill_process(pid, Signal::TERM)?)
}
