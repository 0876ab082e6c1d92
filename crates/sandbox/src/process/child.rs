//! Toolkeep's side of a running child.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

use super::SpawnError;
use super::wire::{self, Report};
use host::descriptors::Claim;

/// How a child ended; known once its whole tree is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal: ours or another's.
    Signal(i32),
    /// It never began, and why.
    NotStarted(String),
    /// Its supervisor was killed from outside. The command died with it, and its process group was
    /// killed; what had left that group may still be there.
    Lost,
}

/// Resource usage of a child and its descendants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// Processor time of all of them.
    pub cpu: Duration,
    /// KiB in memory, the most that one of them ever had.
    pub peak_kib: u64,
}

/// A child process and its descendants. Dropping it terminates the tree and kills it after
/// [`GRACE`](super::GRACE).
#[derive(Debug)]
pub struct Child {
    command: String,
    _claim: Claim,
    control: UnixStream,
    supervisor: tokio::process::Child,
    inbox: Vec<u8>,
    closed: bool,
    main: Option<u32>,
    end: Option<Exit>,
    over: bool,
    used: Option<Used>,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
}

impl Child {
    pub(super) fn new(
        (command, claim): (String, Claim),
        control: UnixStream,
        supervisor: tokio::process::Child,
        streams: [OwnedFd; 3],
    ) -> io::Result<Self> {
        let [stdin, stdout, stderr] = streams;
        Ok(Self {
            command,
            _claim: claim,
            control,
            supervisor,
            inbox: Vec::new(),
            closed: false,
            main: None,
            end: None,
            over: false,
            used: None,
            stdin: Some(ChildStdin::from_std(stdin.into())?),
            stdout: Some(ChildStdout::from_std(stdout.into())?),
            stderr: Some(ChildStderr::from_std(stderr.into())?),
        })
    }

    /// The child's standard input, once. Drop it to let the child see its end.
    pub fn stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// The child's standard output, once. Read it to its end, or the child waits.
    pub fn stdout(&mut self) -> Option<ChildStdout> {
        self.stdout.take()
    }

    /// The child's standard error, once. [`Tail`](super::Tail) is a place to read it into.
    pub fn stderr(&mut self) -> Option<ChildStderr> {
        self.stderr.take()
    }

    /// Returns whether it was killed for exceeding the memory limit of its sandbox. Known once
    /// [`wait`](Self::wait) has returned.
    pub fn too_heavy(&self) -> bool {
        self.over
    }

    /// Returns its resource usage. Known once [`wait`](Self::wait) has returned; `None` if its
    /// supervisor was killed.
    pub fn used(&self) -> Option<Used> {
        self.used
    }

    /// The process id of the supervisor, which is the root of the tree; `None` when it has ended.
    pub fn id(&self) -> Option<u32> {
        self.supervisor.id()
    }

    /// Resolves once the command runs, with its process id. May be dropped and called again.
    ///
    /// # Errors
    /// [`SpawnError::NotStarted`] where it could not, [`SpawnError::Supervisor`] where that went first.
    pub async fn started(&mut self) -> Result<u32, SpawnError> {
        while self.main.is_none() && self.end.is_none() && !self.closed {
            self.listen().await;
        }
        match (self.main, &self.end) {
            (Some(main), _) => Ok(main),
            (None, Some(Exit::NotStarted(what))) => {
                Err(SpawnError::NotStarted { command: self.command.clone(), what: what.clone() })
            }
            (None, _) => {
                Err(SpawnError::Supervisor("it ended before the command began".to_owned()))
            }
        }
    }

    /// Resolves when the whole tree is gone. May be dropped and called again.
    pub async fn wait(&mut self) -> Exit {
        while !self.closed {
            self.listen().await;
        }
        // It has closed its end, so it is exiting; this takes it off the process table.
        if let Err(error) = self.supervisor.wait().await {
            tracing::warn!(command = %self.command, %error, "a supervisor could not be waited for");
        }
        if self.end.is_none() {
            self.end = Some(Exit::Lost);
            self.sweep();
        }
        self.end.clone().unwrap_or(Exit::Lost)
    }

    /// Asks the tree to end, kills what is left of it after `grace`, and resolves when it is gone.
    /// Dropped on its way, the tree still ends: after what is left of `grace`, or
    /// [`GRACE`](super::GRACE) where that is less.
    pub async fn kill(mut self, grace: Duration) {
        self.end(grace).await;
    }

    /// Terminates the tree as [`kill`](Self::kill) does, but keeps the handle for its resource
    /// usage.
    pub async fn end(&mut self, grace: Duration) {
        // A closed socket means that it is ending already.
        drop(self.control.write_all(&wire::encode_kill(grace)).await);
        self.wait().await;
    }

    async fn listen(&mut self) {
        match self.control.read_buf(&mut self.inbox).await {
            Ok(1..) => {}
            Ok(0) | Err(_) => self.closed = true,
        }
        while let Some(report) = Report::take(&mut self.inbox) {
            match report {
                Report::Running(pid) => self.main = u32::try_from(pid).ok(),
                Report::Failed(what) => self.end = Some(Exit::NotStarted(what)),
                Report::Code(code) => self.end = Some(Exit::Code(code)),
                Report::Signal(number) => self.end = Some(Exit::Signal(number)),
                Report::Over => self.over = true,
                Report::Used(cpu, peak_kib) => {
                    self.used = Some(Used { cpu: Duration::from_millis(cpu), peak_kib });
                }
                Report::Left(count) => {
                    tracing::warn!(command = %self.command, count, "processes that run as someone else could not be killed");
                }
            }
        }
    }

    /// The supervisor was killed. Its command got SIGKILL from the kernel at that moment; this is for
    /// the rest of that group, while the number cannot have been given away yet.
    fn sweep(&self) {
        let group = self.main.and_then(|main| i32::try_from(main).ok()).and_then(Pid::from_raw);
        if let Some(group) = group {
            let _gone = rustix::process::kill_process_group(group, Signal::KILL);
        }
        tracing::warn!(command = %self.command, "the supervisor of a child was killed from outside");
    }
}
