//! Starts the programs of a run, passes on what they say, and finds whatever they leave running.
//!
//! Two nets catch a leftover: a marker in the environment, and the role of subreaper, by which an
//! orphan becomes our child even where it cleared its environment and left its session.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions};

/// The variable that marks every process of one run.
pub(crate) const MARKER: &str = "TOOLKEEP_TEST_RUN";

/// How often and how long a leftover may still take to go: processes that were just told to end.
const GRACE: (u32, Duration) = (20, Duration::from_millis(150));

/// The children that somebody here waits for. The reaper leaves them alone.
static AWAITED: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// How a program ended and what it said.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// What it wrote to standard output.
    pub(crate) out: String,
    /// What it wrote to standard error.
    pub(crate) err: String,
}

/// Runs `command` to its end, passing its lines on to standard output.
pub(crate) fn shown(command: &mut Command) -> Result<Ended, String> {
    run(command, true)
}

/// Runs `command` to its end and keeps its lines.
pub(crate) fn quiet(command: &mut Command) -> Result<Ended, String> {
    run(command, false)
}

/// Runs `command` to its end; what it wrote, or what it said where it failed.
pub(crate) fn told(command: &mut Command) -> Result<String, String> {
    let ended = quiet(command)?;
    if ended.status.success() { Ok(ended.out.trim().to_owned()) } else { Err(ended.err) }
}

fn run(command: &mut Command, show: bool) -> Result<Ended, String> {
    let name = command.get_program().display().to_string();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawn(command).map_err(|e| format!("cannot start `{name}`: {e}"))?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (out, err) = thread::scope(|scope| {
        let err = scope.spawn(|| err.map(|pipe| pass(pipe, show)));
        (out.map(|pipe| pass(pipe, show)), err.join().ok().flatten())
    });
    let status = child.wait().map_err(|e| format!("cannot wait for `{name}`: {e}"))?;
    awaited().remove(&id(&child));
    Ok(Ended { status, out: out.unwrap_or_default(), err: err.unwrap_or_default() })
}

fn spawn(command: &mut Command) -> std::io::Result<Child> {
    // Held over the start, so that the reaper never sees a child that is not in the list yet.
    let mut awaited = awaited();
    let child = command.spawn()?;
    awaited.insert(id(&child));
    Ok(child)
}

fn pass(pipe: impl Read, show: bool) -> String {
    let mut text = String::new();
    let mut reader = BufReader::new(pipe);
    let mut line = Vec::new();
    while matches!(reader.read_until(b'\n', &mut line), Ok(read) if read > 0) {
        let words = String::from_utf8_lossy(&line);
        if show {
            // A closed terminal must not end the run before it has tidied up.
            drop(std::io::stdout().write_all(words.as_bytes()));
        }
        text.push_str(&words);
        line.clear();
    }
    text
}

fn awaited() -> MutexGuard<'static, BTreeSet<i32>> {
    AWAITED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn id(child: &Child) -> i32 {
    i32::try_from(child.id()).unwrap_or(i32::MAX)
}

/// Makes this process the parent of every orphan of the run, and reaps those that end.
pub(crate) fn adopt_orphans() -> Result<(), String> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|e| format!("cannot become the parent of orphans: {e}"))?;
    thread::spawn(|| {
        loop {
            reap();
            thread::sleep(Duration::from_millis(50));
        }
    });
    Ok(())
}

/// Reaps ended children that nobody waits for, so that an ended orphan is gone as it would be
/// without us.
fn reap() {
    let awaited = awaited();
    // Each by its id: to wait for any child would take those that `run` waits for.
    for process in processes().filter(|p| p.parent == own_id() && p.state == 'Z') {
        if let Some(pid) = Pid::from_raw(process.pid).filter(|_| !awaited.contains(&process.pid)) {
            let _gone = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
}

/// A process that a run left behind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Leftover {
    pub(crate) pid: i32,
    pub(crate) command: String,
}

/// Waits a short while for the processes of run `id` to end; ends and returns those that did not.
pub(crate) fn leftovers(id: &str) -> Vec<Leftover> {
    let (tries, pause) = GRACE;
    for _ in 0..tries {
        if find(id).is_empty() {
            return Vec::new();
        }
        thread::sleep(pause);
    }
    let found = find(id);
    for left in &found {
        if let Some(pid) = Pid::from_raw(left.pid) {
            let _gone = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
    found
}

fn find(id: &str) -> Vec<Leftover> {
    let mark = format!("{MARKER}={id}");
    let awaited = awaited();
    let all: Vec<Process> = processes().filter(|p| p.state != 'Z').collect();
    let mut family = BTreeSet::from([own_id()]);
    let below = |family: &BTreeSet<i32>, p: &Process| family.contains(&p.parent);
    while let Some(next) = all
        .iter()
        .find(|p| below(&family, p) && !family.contains(&p.pid) && !awaited.contains(&p.pid))
    {
        family.insert(next.pid);
    }
    family.remove(&own_id());
    all.iter()
        .filter(|p| family.contains(&p.pid) || p.carries(&mark))
        .map(|p| Leftover { pid: p.pid, command: p.command() })
        .collect()
}

fn own_id() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

struct Process {
    pid: i32,
    parent: i32,
    state: char,
}

impl Process {
    fn carries(&self, mark: &str) -> bool {
        let environ = fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    }

    fn command(&self) -> String {
        let words = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        String::from_utf8_lossy(&words).replace('\0', " ").trim().to_owned()
    }
}

fn processes() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        parse_stat(pid, &fs::read_to_string(entry.path().join("stat")).ok()?)
    })
}

/// Reads `/proc/PID/stat`. The name in parentheses may itself hold blanks and parentheses.
fn parse_stat(pid: i32, stat: &str) -> Option<Process> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some(Process { pid, parent: fields.next()?.parse().ok()?, state })
}

#[cfg(test)]
mod tests;
