//! Atomic writes. Each file is written to a temporary name in the same folder and renamed, so that
//! readers see the old or the new content.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::access_error::{self, FileAccessError};
use super::parent_traversal::split_parent;
use super::{AccessMode, MAX_DEPTH, MAX_RETRIES, RootedDir};

/// Git runs programs configured here, so writing to it is not allowed.
const PROTECTED_DIR_NAME: &str = ".git";

/// Handling of an existing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteMode {
    /// Replace its content and keep its mode.
    Overwrite,
    /// Fail if the file exists.
    CreateNew,
}

impl RootedDir {
    /// Writes a file atomically: to a temporary name in the same folder, synced, then renamed to
    /// `path`, and the folder synced. An existing target must be a regular file without further
    /// hard links.
    ///
    /// # Errors
    /// [`FileAccessError`]; the old file is unchanged then.
    pub fn write_file(
        &self,
        path: impl AsRef<Path>,
        content: &[u8],
        write_mode: WriteMode,
    ) -> Result<(), FileAccessError> {
        self.write_file_with(path, write_mode, |file| file.write_all(content))
    }

    /// Writes a file atomically with the content that `fill` writes, for content that is not in
    /// memory.
    ///
    /// # Errors
    /// [`FileAccessError`], an error of `fill` as [`FileAccessError::Io`]; the old file is unchanged then.
    pub fn write_file_with<T>(
        &self,
        path: impl AsRef<Path>,
        write_mode: WriteMode,
        fill: impl FnOnce(&mut File) -> io::Result<T>,
    ) -> Result<T, FileAccessError> {
        let path = path.as_ref();
        let (parent, name) = self.open_parent_for_write(path)?;
        let old = self.replaceable_file_mode(&parent, name, path)?;
        if write_mode == WriteMode::CreateNew && old.is_some() {
            return Err(FileAccessError::AlreadyExists { path: access_error::display_path(path) });
        }
        let failed = |error| FileAccessError::from_errno(error, path);
        // A new file gets the mode that the umask leaves; a replaced file's mode is set below.
        let mode = if old.is_some() { Mode::RUSR | Mode::WUSR } else { Mode::from_raw_mode(0o666) };
        let mut temp = self.create_temp_file(&parent, mode).map_err(failed)?;
        let filled = fill(&mut temp.file).and_then(|filled| {
            if let Some(mode) = old {
                rustix::fs::fchmod(&temp.file, mode)?;
            }
            temp.file.sync_all().map(|()| filled)
        });
        let filled = filled.map_err(|error| FileAccessError::from_io(&error, path))?;
        let flags = if write_mode == WriteMode::CreateNew {
            RenameFlags::NOREPLACE
        } else {
            RenameFlags::empty()
        };
        temp.rename_to(name, flags).map_err(failed)?;
        sync_dir(&parent).map_err(failed)?;
        Ok(filled)
    }

    /// Creates the missing parent folders of `path`.
    ///
    /// # Errors
    /// [`FileAccessError`].
    pub fn create_parent_dirs(&self, path: impl AsRef<Path>) -> Result<(), FileAccessError> {
        let above = path.as_ref().ancestors().skip(1).filter(|it| !it.as_os_str().is_empty());
        let mut above: Vec<_> = above.take(MAX_DEPTH).collect();
        above.reverse();
        for folder in above {
            match self.create_dir(folder) {
                Ok(()) | Err(FileAccessError::AlreadyExists { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Creates a folder, whose parent must exist.
    ///
    /// # Errors
    /// [`FileAccessError`]; [`FileAccessError::AlreadyExists`] if the path exists.
    pub fn create_dir(&self, path: impl AsRef<Path>) -> Result<(), FileAccessError> {
        let path = path.as_ref();
        let (parent, name) = self.open_parent_for_write(path)?;
        let made = rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o777));
        made.and_then(|()| sync_dir(&parent))
            .map_err(|error| FileAccessError::from_errno(error, path))
    }

    /// Removes a regular file.
    ///
    /// # Errors
    /// [`FileAccessError`].
    pub fn remove_file(&self, path: impl AsRef<Path>) -> Result<(), FileAccessError> {
        let path = path.as_ref();
        let (parent, name) = self.open_parent_for_write(path)?;
        if self.replaceable_file_mode(&parent, name, path)?.is_none() {
            return Err(FileAccessError::from_errno(Errno::NOENT, path));
        }
        let removed = rustix::fs::unlinkat(&parent, name, AtFlags::empty());
        removed
            .and_then(|()| sync_dir(&parent))
            .map_err(|error| FileAccessError::from_errno(error, path))
    }

    /// Rejects a path that can never be written or removed: one that leads out of the root, has no
    /// name, or is in a read-only root. Every change starts with this check.
    ///
    /// # Errors
    /// [`FileAccessError`], as the change itself would return.
    pub fn check_writable(&self, path: impl AsRef<Path>) -> Result<(), FileAccessError> {
        let path = path.as_ref();
        // No links are followed, so a name in the path is the name of the folder.
        if path.iter().any(|part| part.eq_ignore_ascii_case(PROTECTED_DIR_NAME)) {
            return Err(FileAccessError::from_errno(Errno::NOENT, path));
        }
        if self.access == AccessMode::ReadOnly {
            return Err(FileAccessError::ReadOnly { path: access_error::display_path(path) });
        }
        self.check_inside(path)?;
        split_parent(path).map(drop)
    }

    fn open_parent_for_write<'a>(
        &self,
        path: &'a Path,
    ) -> Result<(OwnedFd, &'a OsStr), FileAccessError> {
        self.check_writable(path)?;
        self.open_parent(path)
    }

    /// Returns the mode of an existing file; an error if it must not be replaced.
    fn replaceable_file_mode(
        &self,
        parent: &OwnedFd,
        name: &OsStr,
        path: &Path,
    ) -> Result<Option<Mode>, FileAccessError> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = match self.open_beneath(parent, Path::new(name), flags, Mode::empty()) {
            Ok(found) => found,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(FileAccessError::from_errno(error, path)),
        };
        let stat = self.ensure_regular_file(&found, path)?;
        if stat.st_nlink > 1 {
            return Err(FileAccessError::HardLinked { path: access_error::display_path(path) });
        }
        // Set-id bits and the sticky bit are not applied to new content.
        Ok(Some(Mode::from_raw_mode(stat.st_mode) & (Mode::RWXU | Mode::RWXG | Mode::RWXO)))
    }

    /// Creates an empty temporary file in `parent`.
    fn create_temp_file<'a>(&self, parent: &'a OwnedFd, mode: Mode) -> Result<TempFile<'a>, Errno> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..MAX_RETRIES {
            // Only needs to be unused: O_EXCL guarantees that it is ours.
            let name = OsString::from(format!(".toolkeep-{:016x}", RandomState::new().hash_one(0)));
            match self.open_beneath(parent, Path::new(&name), flags, mode) {
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
                Ok(fd) => {
                    return Ok(TempFile { file: File::from(fd), name, parent, is_renamed: false });
                }
            }
        }
        Err(Errno::EXIST)
    }
}

/// Temporary file in `parent`, removed when dropped unless it was renamed.
struct TempFile<'a> {
    file: File,
    name: OsString,
    parent: &'a OwnedFd,
    is_renamed: bool,
}

impl TempFile<'_> {
    fn rename_to(mut self, name: &OsStr, flags: RenameFlags) -> Result<(), Errno> {
        rustix::fs::renameat_with(self.parent, &self.name, self.parent, name, flags)?;
        self.is_renamed = true;
        Ok(())
    }
}

impl Drop for TempFile<'_> {
    fn drop(&mut self) {
        if !self.is_renamed {
            // If removal fails too, the file remains under its own name.
            let _left = rustix::fs::unlinkat(self.parent, &self.name, AtFlags::empty());
        }
    }
}

/// Syncs the entries of a folder. A folder without read permission cannot be synced.
fn sync_dir(folder: &OwnedFd) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat(folder, ".", flags, Mode::empty()) {
        Ok(folder) => rustix::fs::fsync(&folder),
        Err(Errno::ACCESS) => Ok(()),
        Err(error) => Err(error),
    }
}
