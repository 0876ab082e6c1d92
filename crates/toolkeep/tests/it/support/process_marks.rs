//! Processes found by a mark in their environment or by their parent.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// The variable that a child is marked with.
pub(crate) const MARK_VARIABLE: &str = "TOOLKEEP_IT_MARK";

/// A word no other process carries.
pub(crate) fn new_mark() -> String {
    format!("mark-{}", uuid::Uuid::new_v4().simple())
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The processes with `mark` in their environment; ended ones have none.
pub(crate) fn marked_processes(mark: &str) -> Vec<u32> {
    let holds = |pid: &u32| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.windows(mark.len()).any(|part| part == mark.as_bytes())
    };
    processes().filter(holds).collect()
}

/// Parent and start of a process that has not ended.
fn stat(pid: u32) -> Option<(u32, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may contain any character.
    let fields: Vec<_> = text.rsplit(')').next()?.split_whitespace().collect();
    let alive = !matches!(*fields.first()?, "Z" | "X");
    alive.then(|| Some((fields.get(1)?.parse().ok()?, fields.get(19)?.parse().ok()?))).flatten()
}

/// A process, distinguished from a later one with the same ID by its start time.
pub(crate) type ProcessIdentity = (u32, u64);

/// The children that `parent` has now.
pub(crate) fn children(parent: u32) -> BTreeSet<ProcessIdentity> {
    let child = |pid| stat(pid).filter(|(of, _)| *of == parent).map(|(_, start)| (pid, start));
    processes().filter_map(child).collect()
}

/// Those of `known` that still run.
pub(crate) fn count_running(known: &BTreeSet<ProcessIdentity>) -> usize {
    let runs = |(pid, start): &&ProcessIdentity| stat(*pid).is_some_and(|(_, now)| now == *start);
    known.iter().filter(runs).count()
}

/// Polls until `holds` is true, and returns whether that was within `limit`. For conditions without
/// a notification of the system.
pub(crate) async fn wait_until(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let since = Instant::now();
    while !holds() {
        if since.elapsed() > limit {
            return false;
        }
        sleep(Duration::from_millis(10)).await;
    }
    true
}
