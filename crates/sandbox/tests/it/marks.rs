//! Finds processes by a marker in their environment or arguments, whatever happened to their
//! parents.

use std::fs;

use rustix::process::{Pid, Signal};
pub(crate) use testkit::condition::wait_until;

/// Returns a marker that no other process has.
pub(crate) fn mark(name: &str) -> String {
    format!("tk-mark-{name}-{}-{:?}", std::process::id(), std::thread::current().id())
}

/// Returns the processes with `mark`, except this one; exited processes have no marker.
pub(crate) fn carriers(mark: &str) -> Vec<i32> {
    let holds = |path: String| {
        fs::read(path)
            .is_ok_and(|bytes| bytes.windows(mark.len()).any(|part| part == mark.as_bytes()))
    };
    let numbers = fs::read_dir("/proc").unwrap().flatten();
    numbers
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|&pid: &i32| pid != std::process::id().cast_signed())
        .filter(|pid| {
            holds(format!("/proc/{pid}/environ")) || holds(format!("/proc/{pid}/cmdline"))
        })
        .collect()
}

/// Waits until the number of processes with `mark` satisfies `enough`; fails after 20 s.
pub(crate) async fn until(mark: &str, enough: impl Fn(usize) -> bool) {
    wait_until(&format!("{mark}: {:?}", carriers(mark)), || enough(carriers(mark).len())).await;
}

/// Stops all processes with `mark` and returns them. No process can come or go afterwards, so their
/// number is exact.
pub(crate) async fn stop_carriers(mark: &str) -> Vec<i32> {
    let mut stopped = Vec::new();
    wait_until(&format!("{mark} stopped"), || {
        let found = carriers(mark);
        let running: Vec<_> =
            found.iter().filter(|pid| !matches!(state(**pid), Some('T'))).collect();
        for &&pid in &running {
            let _gone = rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::STOP);
        }
        // A scan is not atomic: the one after it must find the same.
        let is_complete = running.is_empty() && found == stopped;
        stopped = found;
        is_complete
    })
    .await;
    stopped
}

pub(crate) fn continue_processes(pids: &[i32]) {
    for &pid in pids {
        rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::CONT).unwrap();
    }
}

/// Returns the limit of processes that the kernel enforces for a process.
pub(crate) fn process_limit(pid: i32) -> usize {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max processes")).unwrap();
    line.split_ascii_whitespace().next().unwrap().parse().unwrap()
}

/// Returns the letter of the process's state; `None` if there is no such process.
fn state(pid: impl std::fmt::Display) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.trim_start().chars().next()
}

/// Whether the process exists and has not exited.
pub(crate) fn runs(pid: u32) -> bool {
    state(pid).is_some_and(|state| state != 'Z')
}

pub(crate) fn kill(pid: i32) {
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}
