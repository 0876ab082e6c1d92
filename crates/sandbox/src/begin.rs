//! The supervisor's part of starting a sandbox: drops root, creates the init process and reads its
//! status.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::pipe::PipeFlags;
use rustix::process::{DumpableBehavior, Pid};

use super::init::{self, Inside};
use super::steps::{self, Act};
use super::view::Held;
use super::{Cage, Tier, held, sys, weigh};
use crate::process::wire::{Order, Report};

/// Longest line that the first process writes, and more than that of a report.
const MOST_LINE: u64 = 4096;

/// A process that runs in its cage.
#[derive(Debug)]
pub(crate) struct Begun {
    /// Its first process in a whole cage, else the program.
    pub(crate) main: Pid,
    /// Whether killing `main` kills all.
    pub(crate) whole: bool,
    report: File,
    scratch: Option<PathBuf>,
    _lifeline: OwnedFd,
}

impl Begun {
    /// How the program ended, and whether for its weight, where the first process told.
    pub(crate) fn last_word(&mut self) -> Option<(Report, bool)> {
        if !self.whole {
            return None;
        }
        let mut text = String::new();
        (&self.report).take(MOST_LINE).read_to_string(&mut text).ok()?;
        let mut words = text.split_ascii_whitespace();
        let (kind, number) = (words.next()?, words.next()?.parse().ok()?);
        let over = words.next().is_some();
        match kind {
            "code" => Some((Report::Code(number), over)),
            "signal" => Some((Report::Signal(number), over)),
            _ => None,
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if let Some(scratch) = &self.scratch {
            let _kept = std::fs::remove_dir_all(scratch);
        }
    }
}

fn told<T, E: std::fmt::Display>(step: &str, result: Result<T, E>) -> Result<T, String> {
    result.map_err(|error| format!("the cage was not made: {step}: {error}"))
}

/// Starts `order` in `cage`; answers once the program runs. What is refused is named.
pub(crate) fn begin(order: Order, cage: Cage, streams: [OwnedFd; 3]) -> Result<Begun, String> {
    // What the cage does not see is opened while it can be: later it may be out of reach.
    let binary = match (cage.this_binary, cage.from_outside) {
        (true, _) => Some(told("this program", opened(Path::new("/proc/self/exe")))?),
        (false, true) => Some(told("its program", opened(Path::new(&order.command)))?),
        (false, false) => None,
    };
    let mut ready = Held::default();
    if rustix::process::geteuid().is_root() {
        if cage.tier == Tier::Whole {
            ready = told("its folders", before(&cage))?;
        }
        told("its user", sys::become_user(held::NOBODY))?;
        // Changing users hides /proc/self from oneself.
        let seen = rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable);
        told("its user", seen)?;
    }
    let user = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let whole = cage.tier == Tier::Whole;
    let (scratch, made) = if whole {
        (PathBuf::from("/tmp"), None)
    } else {
        let folder = told("its temporary folder", scratch())?;
        (folder.clone(), Some(folder))
    };
    let others = if whole { 0 } else { weigh::tasks_of(user.0) };
    let act = Act { order, cage, binary, streams, scratch, others };
    let begun = if whole { first(Wanted(act, ready, user)) } else { alone(act) };
    let (main, report, lifeline) = begun.inspect_err(|_| {
        if let Some(folder) = &made {
            let _kept = std::fs::remove_dir(folder);
        }
    })?;
    Ok(Begun { main, whole, report, scratch: made, _lifeline: lifeline })
}

/// The trees of a cage's own folders, taken as the superuser.
fn before(cage: &Cage) -> io::Result<Held> {
    let mut ready = Held::default();
    if let Some(path) = &cage.work {
        // Where the file system cannot do it, the cage has what `nobody` may.
        ready.work = Some(held::mapped(path).or_else(|_| held::plain(path))?);
    }
    for path in &cage.readable {
        // A link stands for itself, and what is not there is left out, as for any other user.
        if path.symlink_metadata().is_ok_and(|meta| !meta.is_symlink()) {
            ready.readable.push((path.clone(), held::readable(path)?));
        }
    }
    Ok(ready)
}

/// What the first process is made of.
struct Wanted(Act, Held, (u32, u32));

type Parts = (Pid, File, OwnedFd);

fn first(Wanted(act, ready, user): Wanted) -> Result<Parts, String> {
    let (heard, report) = told("a pipe", rustix::pipe::pipe_with(PipeFlags::CLOEXEC))?;
    let (lifeline, held) = told("a pipe", rustix::pipe::pipe_with(PipeFlags::CLOEXEC))?;
    let inside = Inside { act, held: ready, report: report.into(), lifeline, user };
    // The closure owns it: dropped on this side, so that the pipes end where the first process does.
    let main = sys::fork_into(sys::NEW_ALL, move || init::run(inside));
    let main = told("namespaces", main)?;
    let heard = File::from(heard);
    let line = told("its first process", line(&heard))?;
    match line.strip_prefix("failed ") {
        None if line == "running" => Ok((main, heard, held)),
        why => {
            let _reaped =
                rustix::process::waitpid(Some(main), rustix::process::WaitOptions::empty());
            Err(format!("the cage was not made: {}", why.unwrap_or("its first process ended")))
        }
    }
}

/// Landlock and seccomp alone.
fn alone(act: Act) -> Result<Parts, String> {
    let (mut why, tell) = told("a pipe", io::pipe())?;
    let (lifeline, held) = told("a pipe", rustix::pipe::pipe_with(PipeFlags::CLOEXEC))?;
    let parent = rustix::process::getpid();
    let main = sys::fork_into(0, || {
        let error = if rustix::process::getppid() == Some(parent) {
            steps::become_program(&act)
        } else {
            String::from("its supervisor is gone")
        };
        let _told = (&tell).write_all(error.as_bytes());
    });
    let main = told("a process", main)?;
    drop((tell, lifeline, act));
    let mut text = String::new();
    told("a pipe", why.read_to_string(&mut text))?;
    if text.is_empty() {
        return Ok((main, File::from(OwnedFd::from(why)), held));
    }
    let _reaped = rustix::process::waitpid(Some(main), rustix::process::WaitOptions::empty());
    Err(format!("the cage was not made: {text}"))
}

fn line(mut from: &File) -> io::Result<String> {
    let mut text = Vec::new();
    let mut byte = [0];
    while from.read(&mut byte)? == 1 && byte != *b"\n" && (text.len() as u64) < MOST_LINE {
        text.extend(byte);
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn opened(program: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, program, flags, Mode::empty())?)
}

/// A folder for nobody else; its name is not to be guessed, and making it fails where it is there.
fn scratch() -> io::Result<PathBuf> {
    let mut bytes = [0; 8];
    std::io::Read::read_exact(&mut File::open("/dev/urandom")?, &mut bytes)?;
    let folder = std::env::temp_dir().join(format!("toolkeep-{:016x}", u64::from_le_bytes(bytes)));
    rustix::fs::mkdirat(CWD, &folder, Mode::RWXU)?;
    Ok(folder)
}
