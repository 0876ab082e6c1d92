//! Processes found by a word in their environment, or by who started them, whatever became of that.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// The variable that a child is marked with.
pub(crate) const MARK: &str = "TOOLKEEP_IT_MARK";

/// A word no other process carries.
pub(crate) fn mark() -> String {
    format!("mark-{}", uuid::Uuid::new_v4().simple())
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The processes with `mark` in their environment; ended ones have none.
pub(crate) fn carriers(mark: &str) -> Vec<u32> {
    let holds = |pid: &u32| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.windows(mark.len()).any(|part| part == mark.as_bytes())
    };
    processes().filter(holds).collect()
}

/// Parent and start of a process that has not ended.
fn stat(pid: u32) -> Option<(u32, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may hold anything.
    let fields: Vec<_> = text.rsplit(')').next()?.split_whitespace().collect();
    let alive = !matches!(*fields.first()?, "Z" | "X");
    alive.then(|| Some((fields.get(1)?.parse().ok()?, fields.get(19)?.parse().ok()?))).flatten()
}

/// A process, told from a later one of the same number by its start.
pub(crate) type Known = (u32, u64);

/// The children that `parent` has now.
pub(crate) fn children(parent: u32) -> BTreeSet<Known> {
    let child = |pid| stat(pid).filter(|(of, _)| *of == parent).map(|(_, start)| (pid, start));
    processes().filter_map(child).collect()
}

/// Those of `known` that still run.
pub(crate) fn running(known: &BTreeSet<Known>) -> usize {
    let runs = |(pid, start): &&Known| stat(*pid).is_some_and(|(_, now)| now == *start);
    known.iter().filter(runs).count()
}

/// Waits until `holds`, and says whether it did within `limit`. For what the system offers nothing to
/// wait on.
pub(crate) async fn eventually(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let since = Instant::now();
    while !holds() {
        if since.elapsed() > limit {
            return false;
        }
        sleep(Duration::from_millis(10)).await;
    }
    true
}
