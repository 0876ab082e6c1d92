//! ID-mapped mounts: when Toolkeep runs as root, the working folder appears as owned by the sandbox
//! user.
//!
//! A sandboxed process is never root, not even without capabilities: process limits do not apply to
//! root, and its files belong to root outside. So the mount maps the owners, without changing the
//! disk.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use rustix::process::{Signal, WaitOptions};

use super::syscalls;

/// Uid of a sandboxed process outside its sandbox when Toolkeep runs as root: `nobody`.
pub(super) const NOBODY_UID: u32 = 65534;

/// Clones the tree at `path` with root's files owned by [`NOBODY_UID`], and new files the other way
/// round. Requires root, Linux 5.12 and a file system that supports ID mapping.
pub(super) fn clone_idmapped(path: &Path) -> io::Result<OwnedFd> {
    let tree = clone_plain(path)?;
    let owners = create_owner_map()?;
    syscalls::set_mount_attributes(tree.as_fd(), 0, Some(owners.as_fd()))?;
    Ok(tree)
}

/// Clones a read-only tree, ID-mapped if the file system supports it. Called while this process is
/// still root, since `nobody` may not reach the path.
pub(super) fn clone_read_only(path: &Path) -> io::Result<OwnedFd> {
    let tree =
        super::root_fs::clone_tree(path, super::root_fs::READ_ONLY_ATTRS | libc::MOUNT_ATTR_NODEV)?;
    let owned = create_owner_map()
        .and_then(|owners| syscalls::set_mount_attributes(tree.as_fd(), 0, Some(owners.as_fd())));
    // Without a mapping, the sandbox has the access of `nobody`.
    drop(owned);
    Ok(tree)
}

/// Clones the tree at `path` without a mapping.
pub(super) fn clone_plain(path: &Path) -> io::Result<OwnedFd> {
    let attributes = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOEXEC;
    super::root_fs::clone_tree(path, attributes)
}

/// Creates a user namespace that only provides the ID map.
fn create_owner_map() -> io::Result<File> {
    let holder = syscalls::fork_into(syscalls::USER_NAMESPACE, wait_for_parent)?;
    let folder = format!("/proc/{}", holder.as_raw_pid());
    // Root on the disk is nobody in the sandbox; all other users stay the same.
    let map = format!("0 {NOBODY_UID} 1\n1 1 {}\n", NOBODY_UID - 1);
    let made = fs::write(format!("{folder}/uid_map"), &map)
        .and_then(|()| fs::write(format!("{folder}/gid_map"), &map))
        .and_then(|()| File::open(format!("{folder}/ns/user")));
    let _gone = rustix::process::kill_process(holder, Signal::KILL);
    let _reaped = rustix::process::waitpid(Some(holder), WaitOptions::empty());
    made
}

fn wait_for_parent() {
    let _bound = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    loop {
        std::thread::sleep(std::time::Duration::from_secs(5));
        if rustix::process::getppid().is_none_or(rustix::process::Pid::is_init) {
            return;
        }
    }
}
