//! Folder listings, limited in number of entries.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

use super::error::RootError;
use super::{Meta, Root, id_of, meta};

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Name, which may contain any bytes: escape it before display.
    pub name: OsString,
    /// Metadata of the entry.
    pub meta: Meta,
}

/// Entries of a folder, sorted by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Entries up to the limit, sorted by name.
    pub entries: Vec<Entry>,
    /// Whether the folder has more entries.
    pub more: bool,
}

impl Root {
    /// Lists at most `limit` entries of a folder; an empty path is the root. If there are more, the
    /// system decides which are listed.
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
            // Removed meanwhile: not listed.
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

/// Reopens a path-only folder handle for reading.
fn opened(folder: &OwnedFd) -> Result<Dir, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Dir::new(rustix::fs::openat(folder, ".", flags, Mode::empty())?)
}
