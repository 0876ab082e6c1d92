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

/// Whether the process exists and has not exited.
pub(crate) fn runs(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with('Z'))
}

pub(crate) fn kill(pid: i32) {
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}
