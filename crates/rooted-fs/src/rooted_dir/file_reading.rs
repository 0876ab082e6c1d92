//! Reading of files: complete, a prefix, or as an open file.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::Mode;
use rustix::io::Errno;

use super::access_error::{self, FileAccessError};
use super::{FileMetadata, FilePrefix, READ_FLAGS, RootedDir, metadata_from_stat};

/// Largest preallocation in bytes, because a file may report a wrong size.
const MAX_PREALLOCATION: usize = 16 << 20;
/// Largest number of links in a chain.
const MAX_LINKS: usize = 8;

impl RootedDir {
    /// Reads a regular file.
    ///
    /// # Errors
    /// [`FileAccessError`]; [`FileAccessError::TooLarge`] if the file has more than `limit` bytes,
    /// whatever size the system reports.
    pub fn read_file(
        &self,
        path: impl AsRef<Path>,
        limit: usize,
    ) -> Result<Vec<u8>, FileAccessError> {
        let path = path.as_ref();
        let start = self.read_prefix(path, limit)?;
        if start.is_truncated {
            return Err(FileAccessError::TooLarge {
                path: access_error::display_path(path),
                limit,
            });
        }
        Ok(start.content)
    }

    /// Reads at most `limit` bytes from the start of a regular file, with its metadata.
    ///
    /// # Errors
    /// [`FileAccessError`].
    pub fn read_prefix(
        &self,
        path: impl AsRef<Path>,
        limit: usize,
    ) -> Result<FilePrefix, FileAccessError> {
        let path = path.as_ref();
        let (file, meta) = self.open_file(path)?;
        let announced = usize::try_from(meta.size).unwrap_or(0);
        let mut content =
            Vec::with_capacity(announced.min(limit).saturating_add(1).min(MAX_PREALLOCATION));
        let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
        let read = file.take(most).read_to_end(&mut content);
        read.map_err(|error| FileAccessError::from_io(&error, path))?;
        let more = content.len() > limit;
        content.truncate(limit);
        Ok(FilePrefix { content, is_truncated: more, metadata: meta })
    }

    /// Opens a regular file for reading, with its metadata. For files too large to read completely;
    /// the caller limits its reads.
    ///
    /// # Errors
    /// [`FileAccessError`].
    pub fn open_file(
        &self,
        path: impl AsRef<Path>,
    ) -> Result<(File, FileMetadata), FileAccessError> {
        let path = path.as_ref();
        let mut at = Cow::Borrowed(path);
        for _ in 0..=MAX_LINKS {
            let (parent, name) = self.open_parent_with(&at, path, self.read_flags())?;
            match self.open_beneath(&parent, Path::new(name), READ_FLAGS, Mode::empty()) {
                Ok(file) => {
                    let stat = self.ensure_regular_file(&file, path)?;
                    return Ok((File::from(file), metadata_from_stat(&stat)));
                }
                // The target of the link is resolved from the root, like a requested path.
                Err(Errno::LOOP) if self.follows_links => {
                    let led = rustix::fs::readlinkat(&parent, name, Vec::new());
                    let led = led.map_err(|error| FileAccessError::from_errno(error, path))?;
                    let folder = at.parent().unwrap_or(Path::new(""));
                    let next = folder.join(OsStr::from_bytes(led.as_bytes()));
                    at = Cow::Owned(next);
                }
                Err(error) => return Err(FileAccessError::from_errno(error, path)),
            }
        }
        Err(FileAccessError::from_errno(Errno::LOOP, path))
    }
}
