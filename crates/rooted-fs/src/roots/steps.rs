//! A path with steps up, walked without asking the kernel for one.
//!
//! The kernel refuses a step up while anything on the machine is renamed (openat2(2), EAGAIN): its
//! lock is one for all folders, so a busy neighbour could keep such a path from being opened at all.
//! Here each folder on the way stays open, and a step up goes back to the one before. It never leads
//! above the root, which is the first, and what is renamed meanwhile changes nothing.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{Mode, ResolveFlags};
use rustix::io::Errno;

use super::error::RootError;
use super::{FOLDER, MOST_DEPTH, Root};

/// Longest path, as the kernel's own (`PATH_MAX`, with the byte that ends it).
const MOST_BYTES: usize = 4096;

/// Whether a path has a step up.
pub(super) fn up(path: &Path) -> bool {
    path.as_os_str().as_bytes().split(|byte| *byte == b'/').any(|name| name == b"..")
}

/// Whether a path steps up further than it went down, where no name in it is a link.
fn leaves(path: &Path) -> bool {
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

/// The folder of a path, and the name in it: one name, which is no step up.
///
/// # Errors
/// [`RootError::NoSuch`] where it names nothing.
pub(super) fn split(path: &Path) -> Result<(&Path, &OsStr), RootError> {
    let bytes = path.as_os_str().as_bytes();
    let (parent, name) = match bytes.iter().rposition(|byte| *byte == b'/') {
        // Never empty where a slash was: that is for the kernel to refuse.
        Some(at) => {
            (bytes.get(..at.max(1)).unwrap_or_default(), bytes.get(at + 1..).unwrap_or_default())
        }
        None => (b"".as_slice(), bytes),
    };
    if matches!(name, b"" | b"." | b"..") || name.contains(&0) {
        return Err(RootError::of(Errno::NOENT, path));
    }
    Ok((Path::new(OsStr::from_bytes(parent)), OsStr::from_bytes(name)))
}

impl Root {
    /// Rejects a path that surely leads out of the root, from its text alone. Every look-up is kept inside
    /// by the kernel besides.
    ///
    /// # Errors
    /// [`RootError::NoSuch`], as for what is not there.
    pub fn check_inside(&self, path: impl AsRef<Path>) -> Result<(), RootError> {
        let path = path.as_ref();
        let has_nul = path.as_os_str().as_bytes().contains(&0);
        // A link may lead anywhere, and a step up from there to the inside.
        let links = !self.resolve.contains(ResolveFlags::NO_SYMLINKS);
        if has_nul || path.is_absolute() || (!links && leaves(path)) {
            return Err(RootError::of(Errno::NOENT, path));
        }
        Ok(())
    }

    /// The folder that `path` leads to; only where no links are followed, as those may step up, too.
    pub(super) fn walk(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let path = path.as_os_str().as_bytes();
        if path.first() == Some(&b'/') {
            return Err(Errno::XDEV);
        }
        if path.len() >= MOST_BYTES {
            return Err(Errno::NAMETOOLONG);
        }
        let mut way = Vec::new();
        for name in path.split(|byte| *byte == b'/') {
            match name {
                b"" | b"." => {}
                b".." => drop(way.pop().ok_or(Errno::XDEV)?),
                _ if way.len() == MOST_DEPTH => return Err(Errno::NAMETOOLONG),
                name => {
                    let at = way.last().unwrap_or(&self.folder);
                    let name = Path::new(OsStr::from_bytes(name));
                    way.push(self.look_up(at, name, FOLDER, Mode::empty())?);
                }
            }
        }
        way.pop()
            .map_or_else(|| self.look_up(&self.folder, Path::new("."), FOLDER, Mode::empty()), Ok)
    }
}
