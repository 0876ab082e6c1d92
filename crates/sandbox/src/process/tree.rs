//! The descendants of the supervisor, found through `/proc`, and how they are signalled safely.
//!
//! The supervisor is a subreaper: whatever forks away or starts a session of its own still has it
//! as an ancestor. So a walk over `/proc` finds all, and a process is signalled by descriptor after
//! another look at its parent: a number that was given to someone else meanwhile is not hit.

use std::collections::{HashMap, HashSet};
use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal};

/// Rounds of stopping before the killing begins: a process that forks faster than that is met again
/// in the next pass.
const STOP_ROUNDS: usize = 16;

/// One process, as `/proc` tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    parent: i32,
    group: i32,
    ended: bool,
}

/// What a pass found.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Pass {
    /// Processes that still ran.
    pub(super) running: usize,
    /// Those of them that may not be signalled.
    pub(super) denied: usize,
}

/// Asks everything outside `group` to end; the group is asked by its leader's id.
pub(super) fn ask_others(root: Pid, group: Pid) {
    let members = descendants(root);
    for (&pid, seen) in &members {
        if !seen.ended && seen.group != group.as_raw_pid() {
            signal(root, pid, &members, Signal::TERM);
        }
    }
}

/// Stops all descendants, so that none forks on, and kills them.
pub(super) fn kill_all(root: Pid) -> Pass {
    let mut stopped = HashSet::new();
    let mut members = descendants(root);
    for _ in 0..STOP_ROUNDS {
        let fresh: Vec<i32> = running(&members).filter(|&pid| stopped.insert(pid)).collect();
        if fresh.is_empty() {
            break;
        }
        for pid in fresh {
            signal(root, pid, &members, Signal::STOP);
        }
        members = descendants(root);
    }
    let mut pass = Pass::default();
    for pid in running(&members) {
        pass.running += 1;
        pass.denied += usize::from(!signal(root, pid, &members, Signal::KILL));
    }
    pass
}

fn running(members: &HashMap<i32, Seen>) -> impl Iterator<Item = i32> {
    members.iter().filter(|(_, seen)| !seen.ended).map(|(&pid, _)| pid)
}

/// Answers false only where the system refuses.
fn signal(root: Pid, pid: i32, members: &HashMap<i32, Seen>, signal: Signal) -> bool {
    let Some(target) = Pid::from_raw(pid) else { return true };
    let Ok(fd) = rustix::process::pidfd_open(target, PidfdFlags::empty()) else { return true };
    let ours = look(pid)
        .is_some_and(|now| now.parent == root.as_raw_pid() || members.contains_key(&now.parent));
    !ours || rustix::process::pidfd_send_signal(fd, signal) != Err(rustix::io::Errno::PERM)
}

fn descendants(root: Pid) -> HashMap<i32, Seen> {
    let all = everything();
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

fn everything() -> HashMap<i32, Seen> {
    let Ok(entries) = fs::read_dir("/proc") else { return HashMap::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(|pid: i32| Some((pid, look(pid)?))).collect()
}

fn look(pid: i32) -> Option<Seen> {
    parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The fields after the name, which may itself contain anything: proc_pid_stat(5).
fn parse(stat: &[u8]) -> Option<Seen> {
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let ended = matches!(fields.next()?, "Z" | "X" | "x");
    Some(Seen { parent: fields.next()?.parse().ok()?, group: fields.next()?.parse().ok()?, ended })
}

#[cfg(test)]
mod tests {
    use super::{Seen, parse};

    #[test]
    fn a_name_cannot_pretend_to_be_fields() {
        let seen = Seen { parent: 7, group: 9, ended: false };
        assert_eq!(parse(b"42 (a) Z 1 1) S 7 9 3 0"), Some(seen));
        assert_eq!(parse(b"42 (\xff\n) S 7 9 3 0"), Some(seen));
        assert_eq!(parse(b"42 (x) Z 7 9"), Some(Seen { ended: true, ..seen }));
        assert_eq!(parse(b"42 (x"), None);
        assert_eq!(parse(b""), None);
    }
}
