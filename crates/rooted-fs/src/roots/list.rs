//! What is in a folder.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

use super::error::RootError;
use super::{Meta, Root, id_of, meta};

/// One thing in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name, which may be any bytes: escape it before it is shown.
    pub name: OsString,
    /// What it is.
    pub meta: Meta,
}

/// What is in a folder, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// As many as were asked for, in the order of their names.
    pub entries: Vec<Entry>,
    /// Whether there are more.
    pub more: bool,
}

impl Root {
    /// Lists a folder, `limit` entries of it at most; an empty path is the root. Where there are more,
    /// which of them are listed is the system's choice.
    ///
    /// # Errors
    /// [`RootError`].
    pub fn list(&self, path: impl AsRef<Path>, limit: usize) -> Result<Listing, RootError> {
        let path = path.as_ref();
        let folder = self.folder_by(path, path, self.reads())?;
        let failed = |error| RootError::of(error, path);
        let mut listing = Listing { entries: Vec::new(), more: false };
        for found in opened(&folder).map_err(failed)? {
            let found = found.map_err(failed)?;
            let name = OsStr::from_bytes(found.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            // Gone again meanwhile: not listed.
            let Ok(stat) = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            if self.protected.contains(&id_of(&stat)) {
                continue;
            }
            if listing.entries.len() >= limit {
                listing.more = true;
                break;
            }
            listing.entries.push(Entry { name: name.to_owned(), meta: meta(&stat) });
        }
        listing.entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(listing)
    }
}

/// A folder to read, of one that is only held.
fn opened(folder: &OwnedFd) -> Result<Dir, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Dir::new(rustix::fs::openat(folder, ".", flags, Mode::empty())?)
}
