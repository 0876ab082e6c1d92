//! Finds the descendants of the supervisor through `/proc` and signals them safely.
//!
//! The supervisor is a subreaper: processes that fork away or start their own session still have it
//! as an ancestor. So a walk over `/proc` finds all. Each is signalled by pidfd after its parent is
//! checked again, so that a reused pid is not hit.

use std::collections::{HashMap, HashSet};
use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal};

/// Rounds of stopping before killing begins. A process that forks faster is caught in the next
/// pass.
const STOP_ROUNDS: usize = 16;

/// Fields of one process in `/proc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProcessStat {
    parent: i32,
    group: i32,
    is_zombie: bool,
}

/// Result of one kill pass.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct KillPass {
    /// Processes that were still running.
    pub(super) running: usize,
    /// Running processes that may not be signalled.
    pub(super) unsignalable: usize,
}

/// Sends SIGTERM to descendants outside `group`; the group itself is signalled by its id.
pub(super) fn terminate_outside_group(root: Pid, group: Pid) {
    let members = find_descendants(root);
    for (&pid, seen) in &members {
        if !seen.is_zombie && seen.group != group.as_raw_pid() {
            signal_descendant(root, pid, &members, Signal::TERM);
        }
    }
}

/// Stops all descendants, so that none can fork, and kills them.
pub(super) fn kill_all(root: Pid) -> KillPass {
    let mut stopped = HashSet::new();
    let mut members = find_descendants(root);
    for _ in 0..STOP_ROUNDS {
        let fresh: Vec<i32> = running_pids(&members).filter(|&pid| stopped.insert(pid)).collect();
        if fresh.is_empty() {
            break;
        }
        for pid in fresh {
            signal_descendant(root, pid, &members, Signal::STOP);
        }
        members = find_descendants(root);
    }
    let mut pass = KillPass::default();
    for pid in running_pids(&members) {
        pass.running += 1;
        pass.unsignalable += usize::from(!signal_descendant(root, pid, &members, Signal::KILL));
    }
    pass
}

fn running_pids(members: &HashMap<i32, ProcessStat>) -> impl Iterator<Item = i32> {
    members.iter().filter(|(_, seen)| !seen.is_zombie).map(|(&pid, _)| pid)
}

/// Signals one descendant. Returns false only if the system refuses.
fn signal_descendant(
    root: Pid,
    pid: i32,
    members: &HashMap<i32, ProcessStat>,
    signal: Signal,
) -> bool {
    let Some(target) = Pid::from_raw(pid) else { return true };
    let Ok(fd) = rustix::process::pidfd_open(target, PidfdFlags::empty()) else { return true };
    let ours = read_stat(pid)
        .is_some_and(|now| now.parent == root.as_raw_pid() || members.contains_key(&now.parent));
    !ours || rustix::process::pidfd_send_signal(fd, signal) != Err(rustix::io::Errno::PERM)
}

fn find_descendants(root: Pid) -> HashMap<i32, ProcessStat> {
    let all = all_processes();
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for (&pid, seen) in &all {
        children.entry(seen.parent).or_default().push(pid);
    }
    let mut found = HashMap::new();
    let mut open = vec![root.as_raw_pid()];
    while let Some(parent) = open.pop() {
        for pid in children.remove(&parent).unwrap_or_default() {
            found.extend(all.get(&pid).map(|seen| (pid, *seen)));
            open.push(pid);
        }
    }
    found
}

fn all_processes() -> HashMap<i32, ProcessStat> {
    let Ok(entries) = fs::read_dir("/proc") else { return HashMap::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(|pid: i32| Some((pid, read_stat(pid)?))).collect()
}

fn read_stat(pid: i32) -> Option<ProcessStat> {
    parse_stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Parses the fields after the name, which may itself contain anything: proc_pid_stat(5).
fn parse_stat(stat: &[u8]) -> Option<ProcessStat> {
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let ended = matches!(fields.next()?, "Z" | "X" | "x");
    Some(ProcessStat {
        parent: fields.next()?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
        is_zombie: ended,
    })
}

#[cfg(test)]
mod tests {
    use super::{ProcessStat, parse_stat};

    #[test]
    fn a_name_cannot_pretend_to_be_fields() {
        let seen = ProcessStat { parent: 7, group: 9, is_zombie: false };
        assert_eq!(parse_stat(b"42 (a) Z 1 1) S 7 9 3 0"), Some(seen));
        assert_eq!(parse_stat(b"42 (\xff\n) S 7 9 3 0"), Some(seen));
        assert_eq!(parse_stat(b"42 (x) Z 7 9"), Some(ProcessStat { is_zombie: true, ..seen }));
        assert_eq!(parse_stat(b"42 (x"), None);
        assert_eq!(parse_stat(b""), None);
    }
}
