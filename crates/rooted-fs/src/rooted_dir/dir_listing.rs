//! Folder listings, limited in number of entries.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

use super::access_error::FileAccessError;
use super::{FileMetadata, RootedDir, file_id, metadata_from_stat};

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootedDirEntry {
    /// Name, which may contain any bytes: escape it before display.
    pub name: OsString,
    /// Metadata of the entry.
    pub metadata: FileMetadata,
}

/// Entries of a folder, sorted by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirListing {
    /// Entries up to the limit, sorted by name.
    pub entries: Vec<RootedDirEntry>,
    /// Whether the folder has more entries.
    pub is_truncated: bool,
}

impl RootedDir {
    /// Lists at most `limit` entries of a folder; an empty path is the root. If there are more, the
    /// system decides which are listed.
    ///
    /// # Errors
    /// [`FileAccessError`].
    pub fn list_dir(
        &self,
        path: impl AsRef<Path>,
        limit: usize,
    ) -> Result<DirListing, FileAccessError> {
        let path = path.as_ref();
        let folder = self.open_dir_with(path, path, self.read_flags())?;
        let failed = |error| FileAccessError::from_errno(error, path);
        let mut listing = DirListing { entries: Vec::new(), is_truncated: false };
        for found in reopen_for_reading(&folder).map_err(failed)? {
            let found = found.map_err(failed)?;
            let name = OsStr::from_bytes(found.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            // Removed meanwhile: not listed.
            let Ok(stat) = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            if self.hidden_ids.contains(&file_id(&stat)) {
                continue;
            }
            if listing.entries.len() >= limit {
                listing.is_truncated = true;
                break;
            }
            listing.entries.push(RootedDirEntry {
                name: name.to_owned(),
                metadata: metadata_from_stat(&stat),
            });
        }
        listing.entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(listing)
    }
}

/// Reopens a path-only folder handle for reading.
fn reopen_for_reading(folder: &OwnedFd) -> Result<Dir, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Dir::new(rustix::fs::openat(folder, ".", flags, Mode::empty())?)
}
