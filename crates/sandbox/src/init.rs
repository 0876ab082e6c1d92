//! The init process of a full sandbox. It builds the root file system, starts the program, forwards
//! SIGTERM, reaps orphans, and ends all processes when the program exits.
//!
//! It is a copy of the supervisor in new namespaces, has one thread, and never reads what the program
//! writes.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{DumpableBehavior, Pid, Signal, WaitOptions, WaitStatus};

use super::steps::{self, Act};
use super::{sys, view, weigh};

/// How often the cage is weighed, in milliseconds.
const WEIGHED: i64 = 50;

/// What the first process is made with.
pub(super) struct Inside {
    pub(super) act: Act,
    /// Its own folders, where they were made beforehand.
    pub(super) held: view::Held,
    /// To the supervisor: how it began and how it ended, a line each.
    pub(super) report: File,
    /// Closed at its other end when the supervisor is gone.
    pub(super) lifeline: OwnedFd,
    /// Who this is outside.
    pub(super) user: (u32, u32),
}

/// Runs as the first process.
pub(super) fn run(mut inside: Inside) {
    let began = prepare(&mut inside);
    let line = match began {
        Ok(main) => {
            let _told = inside.report.write_all(b"running\n");
            watch(main, inside.act.cage.share.together)
        }
        Err(why) => format!("failed {}\n", why.replace('\n', " ")),
    };
    let _told = inside.report.write_all(line.as_bytes());
    // Nothing of the supervisor's copy is run any more, not even what would drop it.
    sys::leave(0)
}

fn told<T, E: std::fmt::Display>(step: &str, result: Result<T, E>) -> Result<T, String> {
    result.map_err(|error| format!("{step}: {error}"))
}

fn prepare(inside: &mut Inside) -> Result<Pid, String> {
    sys::plain_signals();
    sys::hold_signals();
    told("its descriptors", keep(inside))?;
    told("its session", rustix::process::setsid())?;
    told("user namespace", map(inside.user))?;
    told("its name", sys::name_machine("cage"))?;
    told("its view of files", view::enter(&inside.act.cage, std::mem::take(&mut inside.held)))?;
    told("its rights", sys::drop_capabilities())?;
    told("its rights", rustix::thread::set_no_new_privs(true))?;
    let hidden = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    told("its rights", hidden)?;
    told("its parent", rustix::process::set_parent_process_death_signal(Some(Signal::KILL)))?;
    // The supervisor may have ended before the line above: then no signal comes any more.
    let mut ends = [PollFd::new(&inside.lifeline, PollFlags::empty())];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    if told("its parent", rustix::event::poll(&mut ends, Some(&now)))? > 0 {
        return Err("its supervisor is gone".to_owned());
    }
    start(&inside.act)
}

fn keep(inside: &Inside) -> io::Result<()> {
    let act = &inside.act;
    let mut kept: Vec<i32> = act.streams.iter().map(AsRawFd::as_raw_fd).collect();
    kept.extend(act.binary.iter().chain(&inside.held.work).map(AsRawFd::as_raw_fd));
    kept.extend(inside.held.readable.iter().map(|(_, tree)| tree.as_raw_fd()));
    kept.extend([inside.report.as_raw_fd(), inside.lifeline.as_raw_fd()]);
    sys::close_but(&kept)?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(null.as_fd())?;
    rustix::stdio::dup2_stdout(null.as_fd())?;
    rustix::stdio::dup2_stderr(null.as_fd())?;
    Ok(())
}

/// One user and one group: the supervisor's, under a number that means nothing.
fn map((uid, gid): (u32, u32)) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("1000 {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("1000 {gid} 1"))
}

/// Starts the program; answers once it runs, or with why it does not.
fn start(act: &Act) -> Result<Pid, String> {
    let (mut why, tell) = told("a pipe", io::pipe())?;
    let main = sys::fork_into(0, || {
        let error = steps::become_program(act);
        let _told = (&tell).write_all(error.as_bytes());
    });
    let main = told("a process", main)?;
    drop(tell);
    let mut text = String::new();
    // Closed by exec, so its end without a word means that the program runs.
    told("a pipe", why.read_to_string(&mut text))?;
    if text.is_empty() { Ok(main) } else { Err(text) }
}

/// Waits for the program's end; answers the line that tells of it.
fn watch(main: Pid, most: u64) -> String {
    let mut over = false;
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == main => return ended(status, over),
            Ok(Some(_)) => continue,
            Err(error) if error != rustix::io::Errno::INTR => return "signal 9\n".to_owned(),
            Ok(None) | Err(_) => {}
        }
        match sys::wait_signal(WEIGHED) {
            sys::Woken::Child => {}
            sys::Woken::Asked => sys::signal_all(libc::SIGTERM),
            sys::Woken::Time => {
                if weigh::together() > most {
                    over = true;
                    sys::signal_all(libc::SIGKILL);
                }
            }
        }
    }
}

fn ended(status: WaitStatus, over: bool) -> String {
    let over = if over { " memory" } else { "" };
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("code {code}{over}\n"),
        (None, signal) => format!("signal {}{over}\n", signal.unwrap_or(9)),
    }
}
