//! Child processes of a run: starts them, forwards their output, and finds the ones that they leave
//! running.
//!
//! Two mechanisms find a leftover: a marker in the environment, and the role of subreaper, by which
//! an orphan becomes a child of this process even if it cleared its environment and left its
//! session.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, getrlimit, setrlimit};

/// The variable that marks every process of one run.
pub(crate) const RUN_VARIABLE: &str = "TOOLKEEP_TEST_RUN";

/// Number and interval of checks for processes that were asked to end.
const EXIT_POLLING: (u32, Duration) = (20, Duration::from_millis(150));

/// Children that a caller waits for. The reaper ignores them.
static AWAITED_CHILDREN: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// Exit status and output of a finished program.
pub(crate) struct FinishedCommand {
    pub(crate) status: ExitStatus,
    /// Standard output of the process.
    pub(crate) stdout_text: String,
    /// Standard error of the process.
    pub(crate) stderr_text: String,
}

/// Runs `command` to its end, passing its lines on to standard output.
pub(crate) fn run_visible(command: &mut Command) -> Result<FinishedCommand, String> {
    run_command(command, true, true)
}

/// Runs `command` to its end, passing on the lines of its standard error and keeping both outputs.
pub(crate) fn run_with_progress(command: &mut Command) -> Result<FinishedCommand, String> {
    run_command(command, false, true)
}

/// Runs `command` to its end and keeps its lines.
pub(crate) fn run_quiet(command: &mut Command) -> Result<FinishedCommand, String> {
    run_command(command, false, false)
}

/// Runs `command` to its end. Returns its output, or its standard error on failure.
pub(crate) fn run_for_output(command: &mut Command) -> Result<String, String> {
    let output = run_quiet(command)?;
    if output.status.success() {
        Ok(output.stdout_text.trim().to_owned())
    } else {
        Err(output.stderr_text)
    }
}

/// Runs `command` and passes on the lines of the outputs that are shown.
fn run_command(
    command: &mut Command,
    show_out: bool,
    show_err: bool,
) -> Result<FinishedCommand, String> {
    let name = command.get_program().display().to_string();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawn_awaited(command).map_err(|e| format!("cannot start `{name}`: {e}"))?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (out, err) = thread::scope(|scope| {
        let err = scope.spawn(|| err.map(|pipe| read_lines(pipe, show_err)));
        (out.map(|pipe| read_lines(pipe, show_out)), err.join().ok().flatten())
    });
    let status = child.wait().map_err(|e| format!("cannot wait for `{name}`: {e}"))?;
    lock_awaited().remove(&child_id(&child));
    Ok(FinishedCommand {
        status,
        stdout_text: out.unwrap_or_default(),
        stderr_text: err.unwrap_or_default(),
    })
}

fn spawn_awaited(command: &mut Command) -> std::io::Result<Child> {
    // Held over the start, so that the reaper never sees a child that is not in the list yet.
    let mut awaited = lock_awaited();
    let child = command.spawn()?;
    awaited.insert(child_id(&child));
    Ok(child)
}

fn read_lines(pipe: impl Read, show: bool) -> String {
    let mut text = String::new();
    let mut reader = BufReader::new(pipe);
    let mut line = Vec::new();
    while matches!(reader.read_until(b'\n', &mut line), Ok(read) if read > 0) {
        let line_text = String::from_utf8_lossy(&line);
        if show {
            // A closed terminal must not end the run before the cleanup.
            drop(std::io::stdout().write_all(line_text.as_bytes()));
        }
        text.push_str(&line_text);
        line.clear();
    }
    text
}

fn lock_awaited() -> MutexGuard<'static, BTreeSet<i32>> {
    AWAITED_CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn child_id(child: &Child) -> i32 {
    i32::try_from(child.id()).unwrap_or(i32::MAX)
}

/// Open files that this process and its children are allowed, if the system allows them.
const MAX_DESCRIPTORS: u64 = 65_536;

/// Raises the limit of open files for this process and its children: shells often begin with 1,024.
pub(crate) fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(MAX_DESCRIPTORS).min(MAX_DESCRIPTORS);
    let raised = limit.current.map(|current| current.max(most));
    let raised = Rlimit { current: raised, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        println!("the limit of open files stays as it is: {error}");
    }
}

/// Makes this process the parent of every orphan of the run, and reaps those that end.
pub(crate) fn adopt_orphans() -> Result<(), String> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|e| format!("cannot become the parent of orphans: {e}"))?;
    thread::spawn(|| {
        loop {
            reap_orphans();
            thread::sleep(Duration::from_millis(50));
        }
    });
    Ok(())
}

/// Reaps ended children that no caller waits for, so that an ended orphan does not remain as a
/// zombie.
fn reap_orphans() {
    let awaited = lock_awaited();
    // Each by its ID: waiting for any child would take those that `run_command` waits for.
    for process in list_processes().filter(|p| p.parent_pid == own_pid() && p.state == 'Z') {
        if let Some(pid) = Pid::from_raw(process.pid).filter(|_| !awaited.contains(&process.pid)) {
            let _gone = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
}

/// A process that a run left behind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LeftoverProcess {
    pub(crate) pid: i32,
    pub(crate) command_line: String,
}

/// Waits a short while for the processes of run `id` to end; ends and returns those that did not.
pub(crate) fn end_leftovers(id: &str) -> Vec<LeftoverProcess> {
    let (tries, pause) = EXIT_POLLING;
    for _ in 0..tries {
        if find_leftovers(id).is_empty() {
            return Vec::new();
        }
        thread::sleep(pause);
    }
    let found = find_leftovers(id);
    for left in &found {
        if let Some(pid) = Pid::from_raw(left.pid) {
            let _gone = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
    found
}

fn find_leftovers(id: &str) -> Vec<LeftoverProcess> {
    let mark = format!("{RUN_VARIABLE}={id}");
    let awaited = lock_awaited();
    let all: Vec<ProcessEntry> = list_processes().filter(|p| p.state != 'Z').collect();
    let mut family = BTreeSet::from([own_pid()]);
    let below = |family: &BTreeSet<i32>, p: &ProcessEntry| family.contains(&p.parent_pid);
    while let Some(next) = all
        .iter()
        .find(|p| below(&family, p) && !family.contains(&p.pid) && !awaited.contains(&p.pid))
    {
        family.insert(next.pid);
    }
    family.remove(&own_pid());
    all.iter()
        .filter(|p| family.contains(&p.pid) || p.has_variable(&mark))
        .map(|p| LeftoverProcess { pid: p.pid, command_line: p.command_line() })
        .collect()
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

struct ProcessEntry {
    pid: i32,
    parent_pid: i32,
    state: char,
}

impl ProcessEntry {
    fn has_variable(&self, mark: &str) -> bool {
        let environ = fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    }

    fn command_line(&self) -> String {
        let arguments = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        String::from_utf8_lossy(&arguments).replace('\0', " ").trim().to_owned()
    }
}

fn list_processes() -> impl Iterator<Item = ProcessEntry> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        parse_stat(pid, &fs::read_to_string(entry.path().join("stat")).ok()?)
    })
}

/// Reads `/proc/PID/stat`. The name in parentheses may itself hold blanks and parentheses.
fn parse_stat(pid: i32, stat: &str) -> Option<ProcessEntry> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some(ProcessEntry { pid, parent_pid: fields.next()?.parse().ok()?, state })
}

#[cfg(test)]
mod tests;
