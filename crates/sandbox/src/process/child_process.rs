//! Toolkeep's side of a running child.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

use super::SpawnError;
use super::supervisor_protocol::{self, SupervisorReport};
use host::descriptors::DescriptorClaim;

/// Exit of a child; known once its whole tree is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChildExit {
    /// It exited with this code.
    Code(i32),
    /// It was ended by this signal, of Toolkeep or of another process.
    Signal(i32),
    /// It never started, with the reason.
    NotStarted(String),
    /// Its supervisor was killed from outside. The command died with it, and its process group was
    /// killed; processes that had left the group may still run.
    SupervisorLost,
}

/// Resource usage of a child and its descendants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceUsage {
    /// Processor time of all of them.
    pub cpu_time: Duration,
    /// Peak resident KiB of the largest process.
    pub peak_kib: u64,
}

/// A child process and its descendants. Dropping it terminates the tree and kills it after
/// [`DEFAULT_GRACE`](super::DEFAULT_GRACE).
#[derive(Debug)]
pub struct ChildProcess {
    command: String,
    _claim: DescriptorClaim,
    control: UnixStream,
    supervisor: tokio::process::Child,
    read_buffer: Vec<u8>,
    is_control_closed: bool,
    main_pid: Option<u32>,
    exit: Option<ChildExit>,
    exceeded_memory_limit: bool,
    usage: Option<ResourceUsage>,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
}

impl ChildProcess {
    pub(super) fn new(
        (command, claim): (String, DescriptorClaim),
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
            read_buffer: Vec::new(),
            is_control_closed: false,
            main_pid: None,
            exit: None,
            exceeded_memory_limit: false,
            usage: None,
            stdin: Some(ChildStdin::from_std(stdin.into())?),
            stdout: Some(ChildStdout::from_std(stdout.into())?),
            stderr: Some(ChildStderr::from_std(stderr.into())?),
        })
    }

    /// Takes the child's standard input. Drop it to send end of file to the child.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Takes the child's standard output. Read it to its end, or the child blocks.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.stdout.take()
    }

    /// Takes the child's standard error. [`OutputTail`](super::OutputTail) can store its last
    /// bytes.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.stderr.take()
    }

    /// Returns whether it was killed for exceeding the memory limit of its sandbox. Known once
    /// [`wait_ended`](Self::wait_ended) has returned.
    pub fn exceeded_memory_limit(&self) -> bool {
        self.exceeded_memory_limit
    }

    /// Returns its resource usage. Known once [`wait_ended`](Self::wait_ended) has returned; `None`
    /// if its supervisor was killed.
    pub fn resource_usage(&self) -> Option<ResourceUsage> {
        self.usage
    }

    /// Returns the process id of the supervisor, the root of the tree; `None` once it has exited.
    pub fn supervisor_pid(&self) -> Option<u32> {
        self.supervisor.id()
    }

    /// Resolves once the command runs, with its process id. Cancel-safe.
    ///
    /// # Errors
    /// [`SpawnError::CommandFailed`] if the command did not start, [`SpawnError::SupervisorFailed`]
    /// if the supervisor ended first.
    pub async fn wait_started(&mut self) -> Result<u32, SpawnError> {
        while self.main_pid.is_none() && self.exit.is_none() && !self.is_control_closed {
            self.read_reports().await;
        }
        match (self.main_pid, &self.exit) {
            (Some(main), _) => Ok(main),
            (None, Some(ChildExit::NotStarted(what))) => {
                Err(SpawnError::CommandFailed { command: self.command.clone(), what: what.clone() })
            }
            (None, _) => {
                Err(SpawnError::SupervisorFailed("it ended before the command started".to_owned()))
            }
        }
    }

    /// Resolves when the whole tree is gone. Cancel-safe.
    pub async fn wait_ended(&mut self) -> ChildExit {
        while !self.is_control_closed {
            self.read_reports().await;
        }
        // The supervisor closed its end, so it is exiting; this reaps it.
        if let Err(error) = self.supervisor.wait().await {
            tracing::warn!(command = %self.command, %error, "cannot wait for a supervisor");
        }
        if self.exit.is_none() {
            self.exit = Some(ChildExit::SupervisorLost);
            self.kill_process_group();
        }
        self.exit.clone().unwrap_or(ChildExit::SupervisorLost)
    }

    /// Terminates the tree, kills the remaining processes after `grace`, and resolves when the tree
    /// has ended. If the future is dropped, the tree still ends: after the rest of `grace`, or
    /// [`DEFAULT_GRACE`](super::DEFAULT_GRACE) if that is less.
    pub async fn shut_down(mut self, grace: Duration) {
        self.terminate_tree(grace).await;
    }

    /// Terminates the tree as [`shut_down`](Self::shut_down) does, but keeps the handle for its
    /// resource usage.
    pub async fn terminate_tree(&mut self, grace: Duration) {
        // A closed socket means that it is already ending.
        drop(self.control.write_all(&supervisor_protocol::encode_kill(grace)).await);
        self.wait_ended().await;
    }

    async fn read_reports(&mut self) {
        match self.control.read_buf(&mut self.read_buffer).await {
            Ok(1..) => {}
            Ok(0) | Err(_) => self.is_control_closed = true,
        }
        while let Some(report) = SupervisorReport::decode_next(&mut self.read_buffer) {
            match report {
                SupervisorReport::Started(pid) => self.main_pid = u32::try_from(pid).ok(),
                SupervisorReport::StartFailed(what) => {
                    self.exit = Some(ChildExit::NotStarted(what));
                }
                SupervisorReport::Exited(code) => self.exit = Some(ChildExit::Code(code)),
                SupervisorReport::Signaled(number) => self.exit = Some(ChildExit::Signal(number)),
                SupervisorReport::MemoryLimitExceeded => self.exceeded_memory_limit = true,
                SupervisorReport::Usage { cpu_ms, peak_kib } => {
                    self.usage =
                        Some(ResourceUsage { cpu_time: Duration::from_millis(cpu_ms), peak_kib });
                }
                SupervisorReport::Unkillable(count) => {
                    tracing::warn!(
                        command = %self.command,
                        count,
                        "cannot kill processes of another user"
                    );
                }
            }
        }
    }

    /// Kills the rest of the process group after the supervisor was killed. The kernel sent SIGKILL
    /// to the command at that moment; its id cannot have been reused yet.
    fn kill_process_group(&self) {
        let group = self.main_pid.and_then(|main| i32::try_from(main).ok()).and_then(Pid::from_raw);
        if let Some(group) = group {
            let _gone = rustix::process::kill_process_group(group, Signal::KILL);
        }
        tracing::warn!(
            command = %self.command,
            "the supervisor of a child process was killed from outside"
        );
    }
}
