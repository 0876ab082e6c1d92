//! The supervisor process: starts one command, adopts its orphans and exits after the whole tree is
//! gone.
//!
//! The supervisor has one thread, no configuration and no environment. It must never wait for
//! Toolkeep, and never outlive the tree.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::time::Instant;

use super::supervisor_protocol::{self, ExecRequest, StartMessage, SupervisorReport};
use super::{DEFAULT_GRACE, pre_exec, process_tree};
use crate::{ExitCause, RunningSandbox, SandboxSpec};

/// Time after which processes that cannot be killed are reported and abandoned.
const UNKILLABLE_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between passes over a tree that is being killed.
const KILL_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs the supervisor of one child. Must be called first in `main`, before any thread starts, if
/// the arguments ask for it. `args` are the arguments after that word; none are supported.
///
/// Returns the child's exit code, 128 plus its signal, 126 if it did not start, and 2 if standard
/// input is not Toolkeep's control socket.
pub fn run_supervisor(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    // Children do not inherit Toolkeep's memory setting. If it cannot be reset, they are slower.
    let _usual = host::memory::set_huge_pages(true);
    let known = args.into_iter().next().is_none();
    let Some((control, start)) = known.then(set_up).and_then(Result::ok) else {
        return ExitCode::from(2);
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let report = match runtime {
        Ok(runtime) => runtime.block_on(supervise_command(control, start)),
        Err(error) => Err(error),
    };
    match report {
        Ok(SupervisorReport::Exited(code)) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Ok(SupervisorReport::Signaled(number)) => {
            ExitCode::from(u8::try_from(128 + number).unwrap_or(255))
        }
        Ok(_) => ExitCode::from(126),
        Err(_) => ExitCode::from(125),
    }
}

fn set_up() -> io::Result<(std::os::unix::net::UnixStream, StartMessage)> {
    let control = io::stdin().as_fd().try_clone_to_owned()?;
    pre_exec::set_cloexec_inherited()?;
    let start = supervisor_protocol::receive_start(control.as_fd())?;
    // Moves to its own session: a signal from Toolkeep's terminal must not end the supervisor
    // first. This fails only for a group leader, which is not in Toolkeep's group either.
    let _leader = rustix::process::setsid();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let control = std::os::unix::net::UnixStream::from(control);
    control.set_nonblocking(true)?;
    Ok((control, start))
}

async fn supervise_command(
    control: std::os::unix::net::UnixStream,
    start: StartMessage,
) -> io::Result<SupervisorReport> {
    let mut control = UnixStream::from_std(control)?;
    let ears = SignalListener::install_handlers()?;
    let running = match start_command(start) {
        Ok(running) => running,
        Err(why) => {
            let report = SupervisorReport::StartFailed(why);
            control.write_all(&report.encode()).await?;
            return Ok(report);
        }
    };
    // Toolkeep may be gone: then the next read reports it.
    drop(
        control
            .write_all(&SupervisorReport::Started(running.main_pid().as_raw_pid()).encode())
            .await,
    );
    let main = running.main_pid();
    let phase = ShutdownPhase::Running;
    let mut watch = TreeSupervisor {
        control,
        signals: ears,
        running,
        main,
        exit_status: None,
        phase,
        refused_since: None,
    };
    let left = watch.wait_until_gone().await;
    if left > 0 {
        drop(watch.control.write_all(&SupervisorReport::Unkillable(left).encode()).await);
    }
    let report = watch.final_report().await;
    let (cpu_ms, peak_kib) = host::memory::children_resource_usage();
    let usage = SupervisorReport::Usage { cpu_ms, peak_kib };
    drop(watch.control.write_all(&usage.encode()).await);
    drop(watch.control.write_all(&report.encode()).await);
    Ok(report)
}

/// Started command, with or without a sandbox.
enum StartedCommand {
    Unsandboxed(Pid),
    Sandboxed(RunningSandbox),
}

impl StartedCommand {
    fn main_pid(&self) -> Pid {
        match self {
            Self::Unsandboxed(main) => *main,
            Self::Sandboxed(begun) => begun.main_pid,
        }
    }

    /// Whether the kernel ends all processes with the main process.
    fn is_full_sandbox(&self) -> bool {
        matches!(self, Self::Sandboxed(begun) if begun.is_full)
    }
}

/// Starts the command. The streams are closed here on return, so that only the child holds them.
fn start_command(start: StartMessage) -> Result<StartedCommand, String> {
    let mut bytes = Vec::new();
    File::from(start.order).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    let order = ExecRequest::decode(&bytes).ok_or("cannot parse the start message")?;
    drop(bytes);
    if let Some(cwd) = &order.cwd
        && !std::path::Path::new(cwd).is_dir()
    {
        return Err(format!("its working directory `{}` does not exist", cwd.display()));
    }
    let mut order = order;
    if let Some(soft) = order.descriptors {
        // Programs that use select(2) fail if a descriptor has a higher number.
        host::descriptors::set_soft_limit(soft).map_err(|error| error.to_string())?;
    }
    if !order.sandbox_args.is_empty() {
        let sandbox_spec = SandboxSpec::from_args(std::mem::take(&mut order.sandbox_args));
        let sandbox_spec = sandbox_spec.ok_or("cannot parse its sandbox configuration")?;
        return crate::launch_sandbox(order, sandbox_spec, start.streams)
            .map(StartedCommand::Sandboxed);
    }
    let [stdin, stdout, stderr] = start.streams;
    #[expect(clippy::disallowed_methods, reason = "guard is the one crate that spawns")]
    let mut command = Command::new(&order.command);
    command.args(&order.args).env_clear().envs(order.env).process_group(0);
    command.stdin(stdin).stdout(stdout).stderr(stderr);
    if let Some(cwd) = &order.cwd {
        command.current_dir(cwd);
    }
    pre_exec::die_with_parent(&mut command);
    let child = command.spawn().map_err(|error| start_error(&error))?;
    i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .map(StartedCommand::Unsandboxed)
        .ok_or_else(|| "it has no process id".to_owned())
}

fn start_error(error: &io::Error) -> String {
    let fix = match error.kind() {
        io::ErrorKind::NotFound => "is it installed, and in its `PATH`?",
        io::ErrorKind::PermissionDenied => "is the file executable?",
        io::ErrorKind::ArgumentListTooLong => "reduce its arguments and environment",
        _ => return error.to_string(),
    };
    format!("{error}; {fix}")
}

/// Signals that wake the supervisor.
struct SignalListener {
    child: Signals,
    terminate: Signals,
    interrupt: Signals,
    hangup: Signals,
}

impl SignalListener {
    fn install_handlers() -> io::Result<Self> {
        Ok(Self {
            child: signal(SignalKind::child())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Resolves with true if the supervisor was asked to end, and with false if a child exited.
    async fn next_signal(&mut self) -> bool {
        tokio::select! {
            _ = self.child.recv() => false,
            _ = self.terminate.recv() => true,
            _ = self.interrupt.recv() => true,
            _ = self.hangup.recv() => true,
        }
    }
}

/// Phase of the shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShutdownPhase {
    Running,
    /// SIGTERM was sent; kills at this instant. The socket may be closed.
    Terminating(Instant),
    Killing,
}

struct TreeSupervisor {
    control: UnixStream,
    signals: SignalListener,
    running: StartedCommand,
    main: Pid,
    exit_status: Option<WaitStatus>,
    phase: ShutdownPhase,
    refused_since: Option<Instant>,
}

enum SupervisorEvent {
    Recheck,
    Terminate(Duration),
    ControlClosed,
}

impl TreeSupervisor {
    /// Returns the exit as the init process reported it, else as the system did.
    async fn final_report(&mut self) -> SupervisorReport {
        if let StartedCommand::Sandboxed(begun) = &mut self.running
            && let Some(exit) = begun.read_exit()
        {
            if exit.exceeded_memory {
                drop(self.control.write_all(&SupervisorReport::MemoryLimitExceeded.encode()).await);
            }
            return exit.cause.into();
        }
        ExitCause::from_status(self.exit_status).into()
    }

    /// Resolves when no child is left, with the number of abandoned processes.
    async fn wait_until_gone(&mut self) -> i32 {
        let mut closed = false;
        while self.reap_children() {
            if self.exit_status.is_some() && self.phase == ShutdownPhase::Running {
                self.phase = ShutdownPhase::Killing;
            }
            let wake = match self.phase {
                ShutdownPhase::Terminating(at) if at <= Instant::now() => {
                    self.phase = ShutdownPhase::Killing;
                    continue;
                }
                ShutdownPhase::Running => None,
                ShutdownPhase::Terminating(at) => Some(at),
                ShutdownPhase::Killing => {
                    let left = self.kill_tree();
                    if left > 0 {
                        return left;
                    }
                    Some(Instant::now() + KILL_POLL_INTERVAL)
                }
            };
            match self.next_event(wake, closed).await {
                SupervisorEvent::Recheck => {}
                SupervisorEvent::Terminate(grace) => self.terminate_tree(grace),
                SupervisorEvent::ControlClosed => {
                    closed = true;
                    self.terminate_tree(DEFAULT_GRACE);
                }
            }
        }
        0
    }

    async fn next_event(&mut self, wake: Option<Instant>, closed: bool) -> SupervisorEvent {
        let (control, ears) = (&self.control, &mut self.signals);
        let time = async {
            match wake {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            asked = ears.next_signal() => if asked { SupervisorEvent::Terminate(DEFAULT_GRACE) } else { SupervisorEvent::Recheck },
            () = time => SupervisorEvent::Recheck,
            _ = control.readable(), if !closed => read_control(control),
        }
    }

    /// Reaps all processes that exited. Returns false if no child is left.
    fn reap_children(&mut self) -> bool {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.main => self.exit_status = Some(status),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Terminates the tree within `grace`, or sooner if that was requested before.
    fn terminate_tree(&mut self, grace: Duration) {
        let at = Instant::now() + grace;
        match self.phase {
            ShutdownPhase::Running => {
                // Not reaped yet, so the id is still valid.
                if self.running.is_full_sandbox() {
                    let _gone = rustix::process::kill_process(self.main, Signal::TERM);
                } else {
                    if self.exit_status.is_none() {
                        let _gone = rustix::process::kill_process_group(self.main, Signal::TERM);
                    }
                    process_tree::terminate_outside_group(rustix::process::getpid(), self.main);
                }
                self.phase = ShutdownPhase::Terminating(at);
            }
            ShutdownPhase::Terminating(before) => {
                self.phase = ShutdownPhase::Terminating(at.min(before));
            }
            ShutdownPhase::Killing => {}
        }
    }

    /// Kills all processes. Returns how many are abandoned, usually none.
    fn kill_tree(&mut self) -> i32 {
        if self.running.is_full_sandbox() {
            // The init process of its namespace: no process in it outlives it.
            let _gone = rustix::process::kill_process(self.main, Signal::KILL);
            return 0;
        }
        if self.exit_status.is_none() {
            let _gone = rustix::process::kill_process_group(self.main, Signal::KILL);
        }
        let pass = process_tree::kill_all(rustix::process::getpid());
        if pass.running > pass.unsignalable {
            self.refused_since = None;
            return 0;
        }
        let since = *self.refused_since.get_or_insert_with(Instant::now);
        if since.elapsed() < UNKILLABLE_TIMEOUT {
            0
        } else {
            i32::try_from(pass.unsignalable.max(1)).unwrap_or(i32::MAX)
        }
    }
}

fn read_control(control: &UnixStream) -> SupervisorEvent {
    let mut bytes = [0; supervisor_protocol::KILL_BYTES];
    match control.try_read(&mut bytes) {
        Ok(supervisor_protocol::KILL_BYTES) => supervisor_protocol::decode_kill(bytes)
            .map_or(SupervisorEvent::ControlClosed, SupervisorEvent::Terminate),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => SupervisorEvent::Recheck,
        // The request is written atomically, so anything shorter is the end.
        _ => SupervisorEvent::ControlClosed,
    }
}
