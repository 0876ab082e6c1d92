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

use rustix::fs::Mode;
use rustix::io::Errno;

use super::{FOLDER, MOST_DEPTH, Root};

/// Longest path, as the kernel's own (`PATH_MAX`, with the byte that ends it).
const MOST_BYTES: usize = 4096;

/// Whether a path has a step up.
pub(super) fn up(path: &Path) -> bool {
    path.as_os_str().as_bytes().split(|byte| *byte == b'/').any(|name| name == b"..")
}

impl Root {
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
