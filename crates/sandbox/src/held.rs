//! ID-mapped mounts: when Toolkeep runs as root, the working folder appears as owned by the sandbox
//! user.
//!
//! A caged process never is the superuser, not even one without capabilities: limits on processes do
//! not hold for it, and its files are its own outside. So the mount, and not the disk, changes owners.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use rustix::process::{Signal, WaitOptions};

use super::sys;

/// Who a caged process is outside where Toolkeep is the superuser: `nobody`.
pub(super) const NOBODY: u32 = 65534;

/// The tree at `path`, where files of the superuser are those of [`NOBODY`], and new ones the other
/// way round. Needs the superuser, Linux 5.12 and a file system that can do it.
pub(super) fn mapped(path: &Path) -> io::Result<OwnedFd> {
    let tree = plain(path)?;
    let owners = owners()?;
    sys::mount_attributes(tree.as_fd(), 0, Some(owners.as_fd()))?;
    Ok(tree)
}

/// A tree that is only read, with the owners of [`mapped`] where the file system can do it. It is taken
/// while this still is the superuser: what leads to it may be closed to `nobody`.
pub(super) fn readable(path: &Path) -> io::Result<OwnedFd> {
    let tree = super::view::tree(path, super::view::FIXED | libc::MOUNT_ATTR_NODEV)?;
    let owned =
        owners().and_then(|owners| sys::mount_attributes(tree.as_fd(), 0, Some(owners.as_fd())));
    // Without, the cage has what `nobody` may.
    drop(owned);
    Ok(tree)
}

/// The tree at `path` as it is.
pub(super) fn plain(path: &Path) -> io::Result<OwnedFd> {
    let attributes = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOEXEC;
    super::view::tree(path, attributes)
}

/// A user namespace that is nothing but its map.
fn owners() -> io::Result<File> {
    let holder = sys::fork_into(sys::NEW_USER, hold)?;
    let folder = format!("/proc/{}", holder.as_raw_pid());
    // Superuser on the disk, nobody in the cage; everyone else stays who they are.
    let map = format!("0 {NOBODY} 1\n1 1 {}\n", NOBODY - 1);
    let made = fs::write(format!("{folder}/uid_map"), &map)
        .and_then(|()| fs::write(format!("{folder}/gid_map"), &map))
        .and_then(|()| File::open(format!("{folder}/ns/user")));
    let _gone = rustix::process::kill_process(holder, Signal::KILL);
    let _reaped = rustix::process::waitpid(Some(holder), WaitOptions::empty());
    made
}

fn hold() {
    let _bound = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    loop {
        std::thread::sleep(std::time::Duration::from_secs(5));
        if rustix::process::getppid().is_none_or(rustix::process::Pid::is_init) {
            return;
        }
    }
}
