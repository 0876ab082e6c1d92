//! The supervisor process: starts one command, adopts its orphans and exits after the whole tree is
//! gone.
//!
//! One thread, no configuration, no environment. It starts one command, adopts whatever that leaves
//! behind, and ends only after all of it. It must never wait for Toolkeep, and never outlive the tree.

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

use super::wire::{self, Order, Report, Start};
use super::{GRACE, preexec, tree};
use crate::{Begun, Cage};

/// How long processes may refuse to be killed before they are given up and reported.
const REFUSED: Duration = Duration::from_secs(5);
/// How long to wait between two looks at a tree that is being killed.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Runs as the supervisor of one child; to be called first thing in `main`, before any thread, where
/// the arguments say so. `args` are those after the word that says so: none are known.
///
/// Answers the child's exit code, 128 plus the signal that ended it, 126 where it did not start, and
/// 2 where standard input is not Toolkeep's control socket.
pub fn supervise(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    // Toolkeep's own way to save memory is not its children's; where it cannot be undone they are slower.
    let _usual = host::memory::huge_pages(true);
    let known = args.into_iter().next().is_none();
    let Some((control, start)) = known.then(prepare).and_then(Result::ok) else {
        return ExitCode::from(2);
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let report = match runtime {
        Ok(runtime) => runtime.block_on(run(control, start)),
        Err(error) => Err(error),
    };
    match report {
        Ok(Report::Code(code)) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Ok(Report::Signal(number)) => ExitCode::from(u8::try_from(128 + number).unwrap_or(255)),
        Ok(_) => ExitCode::from(126),
        Err(_) => ExitCode::from(125),
    }
}

fn prepare() -> io::Result<(std::os::unix::net::UnixStream, Start)> {
    let control = io::stdin().as_fd().try_clone_to_owned()?;
    preexec::keep_from_children()?;
    let start = wire::receive_start(control.as_fd())?;
    // A session of its own: what a terminal sends to Toolkeep must not end the supervisor first.
    // It fails only for a group leader, which then is not in Toolkeep's group either.
    let _leader = rustix::process::setsid();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let control = std::os::unix::net::UnixStream::from(control);
    control.set_nonblocking(true)?;
    Ok((control, start))
}

async fn run(control: std::os::unix::net::UnixStream, start: Start) -> io::Result<Report> {
    let mut control = UnixStream::from_std(control)?;
    let ears = Ears::open()?;
    let running = match execute(start) {
        Ok(running) => running,
        Err(why) => {
            let report = Report::Failed(why);
            control.write_all(&report.encode()).await?;
            return Ok(report);
        }
    };
    // Toolkeep may be gone already: then the next read says so.
    drop(control.write_all(&Report::Running(running.main().as_raw_pid()).encode()).await);
    let main = running.main();
    let phase = Phase::Running;
    let mut watch = Watch { control, ears, running, main, ended: None, phase, refused: None };
    let left = watch.until_gone().await;
    if left > 0 {
        drop(watch.control.write_all(&Report::Left(left).encode()).await);
    }
    let report = watch.report().await;
    let (time, memory) = host::memory::used_by_children();
    drop(watch.control.write_all(&Report::Used(time, memory).encode()).await);
    drop(watch.control.write_all(&report.encode()).await);
    Ok(report)
}

/// What was started, and how it is bound.
enum Running {
    Free(Pid),
    Caged(Begun),
}

impl Running {
    fn main(&self) -> Pid {
        match self {
            Self::Free(main) => *main,
            Self::Caged(begun) => begun.main,
        }
    }

    /// Whether all ends with the main process, by the kernel's care.
    fn whole(&self) -> bool {
        matches!(self, Self::Caged(begun) if begun.whole)
    }
}

/// Starts the command. The streams are closed here on return, so that their ends are the child's.
fn execute(start: Start) -> Result<Running, String> {
    let mut bytes = Vec::new();
    File::from(start.order).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    let order = Order::decode(&bytes).ok_or("the order cannot be read")?;
    drop(bytes);
    if let Some(cwd) = &order.cwd
        && !std::path::Path::new(cwd).is_dir()
    {
        return Err(format!("its working directory `{}` is not there", cwd.display()));
    }
    let mut order = order;
    if let Some(soft) = order.descriptors {
        // Programs that use select(2) break where a descriptor has a higher number.
        host::descriptors::set_soft_limit(soft).map_err(|error| error.to_string())?;
    }
    if !order.cage.is_empty() {
        let cage = Cage::of_words(std::mem::take(&mut order.cage));
        let cage = cage.ok_or("the order of its cage cannot be read")?;
        return crate::begin(order, cage, start.streams).map(Running::Caged);
    }
    let [stdin, stdout, stderr] = start.streams;
    #[expect(clippy::disallowed_methods, reason = "guard is the one crate that spawns")]
    let mut command = Command::new(&order.command);
    command.args(&order.args).env_clear().envs(order.env).process_group(0);
    command.stdin(stdin).stdout(stdout).stderr(stderr);
    if let Some(cwd) = &order.cwd {
        command.current_dir(cwd);
    }
    preexec::die_with_parent(&mut command);
    let child = command.spawn().map_err(|error| reason(&error))?;
    i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .map(Running::Free)
        .ok_or_else(|| "it has no process id".to_owned())
}

fn reason(error: &io::Error) -> String {
    let fix = match error.kind() {
        io::ErrorKind::NotFound => "is it installed, and on the `PATH` it gets?",
        io::ErrorKind::PermissionDenied => "is it a file that may be executed?",
        io::ErrorKind::ArgumentListTooLong => "pass less in its arguments and environment",
        _ => return error.to_string(),
    };
    format!("{error}; {fix}")
}

/// The signals that wake the supervisor.
struct Ears {
    child: Signals,
    terminate: Signals,
    interrupt: Signals,
    hangup: Signals,
}

impl Ears {
    fn open() -> io::Result<Self> {
        Ok(Self {
            child: signal(SignalKind::child())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Resolves with whether the supervisor was asked to end; else a child did.
    async fn next(&mut self) -> bool {
        tokio::select! {
            _ = self.child.recv() => false,
            _ = self.terminate.recv() => true,
            _ = self.interrupt.recv() => true,
            _ = self.hangup.recv() => true,
        }
    }
}

/// How far the end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// Asked; killed from this moment on. The socket may be closed.
    Asked(Instant),
    Killing,
}

struct Watch {
    control: UnixStream,
    ears: Ears,
    running: Running,
    main: Pid,
    ended: Option<WaitStatus>,
    phase: Phase,
    refused: Option<Instant>,
}

enum Woken {
    Again,
    End(Duration),
    Closed,
}

impl Watch {
    /// How it ended: as the first process of its cage told, else as the system did.
    async fn report(&mut self) -> Report {
        if let Running::Caged(begun) = &mut self.running
            && let Some((report, over)) = begun.last_word()
        {
            if over {
                drop(self.control.write_all(&Report::Over.encode()).await);
            }
            return report;
        }
        match self.ended.map(|status| (status.exit_status(), status.terminating_signal())) {
            Some((Some(code), _)) => Report::Code(code),
            Some((_, Some(number))) => Report::Signal(number),
            _ => Report::Signal(Signal::KILL.as_raw()),
        }
    }

    /// Resolves when no child is left, with the number of those given up.
    async fn until_gone(&mut self) -> i32 {
        let mut closed = false;
        while self.reap() {
            if self.ended.is_some() && self.phase == Phase::Running {
                self.phase = Phase::Killing;
            }
            let wake = match self.phase {
                Phase::Asked(at) if at <= Instant::now() => {
                    self.phase = Phase::Killing;
                    continue;
                }
                Phase::Running => None,
                Phase::Asked(at) => Some(at),
                Phase::Killing => {
                    let left = self.strike();
                    if left > 0 {
                        return left;
                    }
                    Some(Instant::now() + LOOK_AGAIN)
                }
            };
            match self.woken(wake, closed).await {
                Woken::Again => {}
                Woken::End(grace) => self.ask(grace),
                Woken::Closed => {
                    closed = true;
                    self.ask(GRACE);
                }
            }
        }
        0
    }

    async fn woken(&mut self, wake: Option<Instant>, closed: bool) -> Woken {
        let (control, ears) = (&self.control, &mut self.ears);
        let time = async {
            match wake {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            asked = ears.next() => if asked { Woken::End(GRACE) } else { Woken::Again },
            () = time => Woken::Again,
            _ = control.readable(), if !closed => hear(control),
        }
    }

    /// Takes the status of everything that ended; false where no child is left.
    fn reap(&mut self) -> bool {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.main => self.ended = Some(status),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Asks the tree to end within `grace`, or sooner where it was asked before.
    fn ask(&mut self, grace: Duration) {
        let at = Instant::now() + grace;
        match self.phase {
            Phase::Running => {
                // Not reaped yet, so the number is still its own.
                if self.running.whole() {
                    let _gone = rustix::process::kill_process(self.main, Signal::TERM);
                } else {
                    if self.ended.is_none() {
                        let _gone = rustix::process::kill_process_group(self.main, Signal::TERM);
                    }
                    tree::ask_others(rustix::process::getpid(), self.main);
                }
                self.phase = Phase::Asked(at);
            }
            Phase::Asked(before) => self.phase = Phase::Asked(at.min(before)),
            Phase::Killing => {}
        }
    }

    /// Kills all there is; answers how many are given up, mostly none.
    fn strike(&mut self) -> i32 {
        if self.running.whole() {
            // The first process of its namespace: nothing there outlives it.
            let _gone = rustix::process::kill_process(self.main, Signal::KILL);
            return 0;
        }
        if self.ended.is_none() {
            let _gone = rustix::process::kill_process_group(self.main, Signal::KILL);
        }
        let pass = tree::kill_all(rustix::process::getpid());
        if pass.running > pass.denied {
            self.refused = None;
            return 0;
        }
        let since = *self.refused.get_or_insert_with(Instant::now);
        if since.elapsed() < REFUSED {
            0
        } else {
            i32::try_from(pass.denied.max(1)).unwrap_or(i32::MAX)
        }
    }
}

fn hear(control: &UnixStream) -> Woken {
    let mut bytes = [0; wire::KILL_BYTES];
    match control.try_read(&mut bytes) {
        Ok(wire::KILL_BYTES) => wire::decode_kill(bytes).map_or(Woken::Closed, Woken::End),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Woken::Again,
        // The request is written whole or not at all, so anything shorter is the end.
        _ => Woken::Closed,
    }
}
