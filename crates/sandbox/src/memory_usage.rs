//! Memory and task counts of processes, read from `/proc`.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

/// Returns the private memory of all visible processes in bytes. Called inside a full sandbox,
/// where only its own processes are visible.
pub(super) fn private_memory_total() -> u64 {
    let page = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
    let of = |pid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
        let mut fields = text.split_ascii_whitespace().map(str::parse::<u64>);
        let (_, resident, shared) = (fields.next()?, fields.next()?.ok()?, fields.next()?.ok()?);
        Some(resident.saturating_sub(shared).saturating_mul(page))
    };
    list_pids().into_iter().filter_map(of).sum()
}

/// Counts the processes and threads of a user.
pub(super) fn count_user_tasks(uid: u32) -> u64 {
    let of = |pid: u32| {
        if fs::metadata(format!("/proc/{pid}")).ok()?.uid() != uid {
            return None;
        }
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("Threads:")?.trim().parse::<u64>().ok())
    };
    list_pids().into_iter().filter_map(of).sum()
}

fn list_pids() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}
