//! Reading of files: complete, a prefix, or as an open file.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::Mode;
use rustix::io::Errno;

use super::error::{self, RootError};
use super::{Meta, READ, Root, Start, meta};

/// Largest preallocation in bytes, because a file may report a wrong size.
const MOST_AT_ONCE: usize = 16 << 20;
/// Largest number of links in a chain.
const MOST_LINKS: usize = 8;

impl Root {
    /// Reads a regular file.
    ///
    /// # Errors
    /// [`RootError`]; [`RootError::TooLarge`] if over `limit` bytes are read, whatever size the
    /// system reports.
    pub fn read(&self, path: impl AsRef<Path>, limit: usize) -> Result<Vec<u8>, RootError> {
        let path = path.as_ref();
        let start = self.read_start(path, limit)?;
        if start.more {
            return Err(RootError::TooLarge { path: error::shown(path), limit });
        }
        Ok(start.content)
    }

    /// Reads at most `limit` bytes from the start of a regular file, with its metadata.
    ///
    /// # Errors
    /// [`RootError`].
    pub fn read_start(&self, path: impl AsRef<Path>, limit: usize) -> Result<Start, RootError> {
        let path = path.as_ref();
        let (file, meta) = self.file(path)?;
        let announced = usize::try_from(meta.size).unwrap_or(0);
        let mut content =
            Vec::with_capacity(announced.min(limit).saturating_add(1).min(MOST_AT_ONCE));
        let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
        let read = file.take(most).read_to_end(&mut content);
        read.map_err(|error| RootError::io(&error, path))?;
        let more = content.len() > limit;
        content.truncate(limit);
        Ok(Start { content, more, meta })
    }

    /// Opens a regular file for reading, with its metadata. For files too large to read completely;
    /// the caller limits its reads.
    ///
    /// # Errors
    /// [`RootError`].
    pub fn file(&self, path: impl AsRef<Path>) -> Result<(File, Meta), RootError> {
        let path = path.as_ref();
        let mut at = Cow::Borrowed(path);
        for _ in 0..=MOST_LINKS {
            let (parent, name) = self.place_by(&at, path, self.reads())?;
            match self.look_up(&parent, Path::new(name), READ, Mode::empty()) {
                Ok(file) => {
                    let stat = self.regular(&file, path)?;
                    return Ok((File::from(file), meta(&stat)));
                }
                // The target of the link is resolved from the root, like a requested path.
                Err(Errno::LOOP) if self.follows => {
                    let led = rustix::fs::readlinkat(&parent, name, Vec::new());
                    let led = led.map_err(|error| RootError::of(error, path))?;
                    let folder = at.parent().unwrap_or(Path::new(""));
                    let next = folder.join(OsStr::from_bytes(led.as_bytes()));
                    at = Cow::Owned(next);
                }
                Err(error) => return Err(RootError::of(error, path)),
            }
        }
        Err(RootError::of(Errno::LOOP, path))
    }
}
