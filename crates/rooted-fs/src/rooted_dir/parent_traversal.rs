//! Resolution of paths with `..` without asking the kernel for a parent folder.
//!
//! `openat2` returns EAGAIN for `..` while any rename runs on the machine, because the rename lock
//! is global. A process that renames constantly could block such paths. Here every folder on the
//! way stays open, and `..` returns to the previous one. It never leads above the root, and
//! concurrent renames have no effect.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{Mode, ResolveFlags};
use rustix::io::Errno;

use super::access_error::FileAccessError;
use super::{DIR_FLAGS, MAX_DEPTH, RootedDir};

/// Longest path in bytes, as the kernel's `PATH_MAX` with its terminating byte.
const MAX_PATH_BYTES: usize = 4096;

/// Returns whether a path contains `..`.
pub(super) fn has_parent_component(path: &Path) -> bool {
    path.as_os_str().as_bytes().split(|byte| *byte == b'/').any(|name| name == b"..")
}

/// Returns whether `..` leads above the start of a path without links.
fn leads_outside(path: &Path) -> bool {
    let mut depth = 0_usize;
    path.as_os_str().as_bytes().split(|byte| *byte == b'/').any(|name| match name {
        b"" | b"." => false,
        b".." if depth == 0 => true,
        b".." => {
            depth -= 1;
            false
        }
        _ => {
            depth += 1;
            false
        }
    })
}

/// Splits a path into its parent and its last component, which is never `..`.
///
/// # Errors
/// [`FileAccessError::NotFound`] if the path has no last component.
pub(super) fn split_parent(path: &Path) -> Result<(&Path, &OsStr), FileAccessError> {
    let bytes = path.as_os_str().as_bytes();
    let (parent, name) = match bytes.iter().rposition(|byte| *byte == b'/') {
        // Never empty where a slash was: that is for the kernel to refuse.
        Some(at) => {
            (bytes.get(..at.max(1)).unwrap_or_default(), bytes.get(at + 1..).unwrap_or_default())
        }
        None => (b"".as_slice(), bytes),
    };
    if matches!(name, b"" | b"." | b"..") || name.contains(&0) {
        return Err(FileAccessError::from_errno(Errno::NOENT, path));
    }
    Ok((Path::new(OsStr::from_bytes(parent)), OsStr::from_bytes(name)))
}

impl RootedDir {
    /// Rejects a path whose text certainly leads out of the root. The kernel confines every lookup
    /// in any case.
    ///
    /// # Errors
    /// [`FileAccessError::NotFound`], as for a missing file.
    pub fn check_inside(&self, path: impl AsRef<Path>) -> Result<(), FileAccessError> {
        let path = path.as_ref();
        let has_nul = path.as_os_str().as_bytes().contains(&0);
        // A link may lead anywhere, and a step up from there to the inside.
        let links = !self.resolve_flags.contains(ResolveFlags::NO_SYMLINKS);
        if has_nul || path.is_absolute() || (!links && leads_outside(path)) {
            return Err(FileAccessError::from_errno(Errno::NOENT, path));
        }
        Ok(())
    }

    /// Resolves `path` component by component; only for lookups that follow no links, because links
    /// may contain `..`.
    pub(super) fn resolve_with_parents(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let path = path.as_os_str().as_bytes();
        if path.first() == Some(&b'/') {
            return Err(Errno::XDEV);
        }
        if path.len() >= MAX_PATH_BYTES {
            return Err(Errno::NAMETOOLONG);
        }
        let mut way = Vec::new();
        for name in path.split(|byte| *byte == b'/') {
            match name {
                b"" | b"." => {}
                b".." => drop(way.pop().ok_or(Errno::XDEV)?),
                _ if way.len() == MAX_DEPTH => return Err(Errno::NAMETOOLONG),
                name => {
                    let at = way.last().unwrap_or(&self.dir);
                    let name = Path::new(OsStr::from_bytes(name));
                    way.push(self.open_beneath(at, name, DIR_FLAGS, Mode::empty())?);
                }
            }
        }
        way.pop().map_or_else(
            || self.open_beneath(&self.dir, Path::new("."), DIR_FLAGS, Mode::empty()),
            Ok,
        )
    }
}
