//! Processes that outlive the one that starts them: a server in the background.
//!
//! Such a process shares nothing with its starter: no standard stream, no terminal, no descriptor, no folder.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal};

use super::preexec;

/// A process to start in the background.
#[derive(Debug)]
pub struct Detached {
    /// Its arguments, after the program's name.
    pub args: Vec<OsString>,
    /// Variables of this process that it does not get; it gets all others.
    pub without: &'static [&'static str],
    /// Receives its standard output and standard error.
    pub log: File,
}

impl Detached {
    /// Starts this very binary with these arguments, also where its file was replaced since the start. The child runs
    /// in `/` and must call [`leave_session`] first thing.
    ///
    /// # Errors
    /// Where no process can be started.
    pub fn start(self) -> io::Result<Child> {
        // What this process was given without asking, such as a pipe of the program that started it, would stay open
        // for as long as the child runs.
        preexec::keep_from_children()?;
        #[expect(clippy::disallowed_methods, reason = "guard is the one crate that spawns")]
        let mut command = std::process::Command::new(PathBuf::from("/proc/self/exe"));
        for name in self.without {
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

/// Puts this process into a session of its own: neither the terminal nor the process group of its starter reaches it.
///
/// # Errors
/// Where it leads a process group already.
pub fn leave_session() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

/// Asks a process to end, by SIGTERM.
///
/// # Errors
/// Where there is no such process, or it belongs to somebody else.
pub fn ask_to_end(pid: u32) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::kill_process(pid, Signal::TERM)?)
}
