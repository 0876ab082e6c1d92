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

use super::error::{self, RootError};
use super::steps::split;
use super::{Access, MOST_DEPTH, MOST_TRIES, Root};

/// Git runs programs configured here, so writing to it is not allowed.
const GIT: &str = ".git";

/// Handling of an existing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// Replace its content and keep its mode.
    Replace,
    /// Fail if the file exists.
    New,
}

impl Root {
    /// Writes a file atomically: to a temporary name in the same folder, synced, then renamed to
    /// `path`, and the folder synced. An existing target must be a regular file without further
    /// hard links.
    ///
    /// # Errors
    /// [`RootError`]; the old file is unchanged then.
    pub fn write(&self, path: impl AsRef<Path>, content: &[u8], put: Put) -> Result<(), RootError> {
        self.write_with(path, put, |file| file.write_all(content))
    }

    /// Writes a file atomically with the content that `fill` writes, for content that is not in
    /// memory.
    ///
    /// # Errors
    /// [`RootError`], an error of `fill` as [`RootError::Io`]; the old file is unchanged then.
    pub fn write_with<T>(
        &self,
        path: impl AsRef<Path>,
        put: Put,
        fill: impl FnOnce(&mut File) -> io::Result<T>,
    ) -> Result<T, RootError> {
        let path = path.as_ref();
        let (parent, name) = self.place_to_change(path)?;
        let old = self.old(&parent, name, path)?;
        if put == Put::New && old.is_some() {
            return Err(RootError::Exists { path: error::shown(path) });
        }
        let failed = |error| RootError::of(error, path);
        // A new file gets the mode that the umask leaves; a replaced file's mode is set below.
        let mode = if old.is_some() { Mode::RUSR | Mode::WUSR } else { Mode::from_raw_mode(0o666) };
        let (mut file, aside) = self.aside(&parent, mode).map_err(failed)?;
        let filled = fill(&mut file).and_then(|filled| {
            if let Some(mode) = old {
                rustix::fs::fchmod(&file, mode)?;
            }
            file.sync_all().map(|()| filled)
        });
        let flags = if put == Put::New { RenameFlags::NOREPLACE } else { RenameFlags::empty() };
        let done = filled.map_err(|error| RootError::io(&error, path)).and_then(|filled| {
            let renamed = rustix::fs::renameat_with(&parent, &aside, &parent, name, flags);
            renamed.map_err(failed).map(|()| filled)
        });
        if done.is_err() {
            // If removal fails too, the temporary file remains under its own name.
            let _left = rustix::fs::unlinkat(&parent, &aside, AtFlags::empty());
            return done;
        }
        sync(&parent).map_err(failed)?;
        done
    }

    /// Creates the missing parent folders of `path`.
    ///
    /// # Errors
    /// [`RootError`].
    pub fn make_folders_above(&self, path: impl AsRef<Path>) -> Result<(), RootError> {
        let above = path.as_ref().ancestors().skip(1).filter(|it| !it.as_os_str().is_empty());
        let mut above: Vec<_> = above.take(MOST_DEPTH).collect();
        above.reverse();
        for folder in above {
            match self.make_folder(folder) {
                Ok(()) | Err(RootError::Exists { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Creates a folder, whose parent must exist.
    ///
    /// # Errors
    /// [`RootError`]; [`RootError::Exists`] if the path exists.
    pub fn make_folder(&self, path: impl AsRef<Path>) -> Result<(), RootError> {
        let path = path.as_ref();
        let (parent, name) = self.place_to_change(path)?;
        let made = rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o777));
        made.and_then(|()| sync(&parent)).map_err(|error| RootError::of(error, path))
    }

    /// Removes a regular file.
    ///
    /// # Errors
    /// [`RootError`].
    pub fn remove(&self, path: impl AsRef<Path>) -> Result<(), RootError> {
        let path = path.as_ref();
        let (parent, name) = self.place_to_change(path)?;
        if self.old(&parent, name, path)?.is_none() {
            return Err(RootError::of(Errno::NOENT, path));
        }
        let removed = rustix::fs::unlinkat(&parent, name, AtFlags::empty());
        removed.and_then(|()| sync(&parent)).map_err(|error| RootError::of(error, path))
    }

    /// Rejects a path that can never be written or removed: one that leads out of the root, has no
    /// name, or is in a read-only root. Every change starts with this check.
    ///
    /// # Errors
    /// [`RootError`], as the change itself would return.
    pub fn check_change(&self, path: impl AsRef<Path>) -> Result<(), RootError> {
        let path = path.as_ref();
        // No links are followed, so a name in the path is the name of the folder.
        if path.iter().any(|part| part.eq_ignore_ascii_case(GIT)) {
            return Err(RootError::of(Errno::NOENT, path));
        }
        if self.access == Access::Read {
            return Err(RootError::ReadOnly { path: error::shown(path) });
        }
        self.check_inside(path)?;
        split(path).map(drop)
    }

    fn place_to_change<'a>(&self, path: &'a Path) -> Result<(OwnedFd, &'a OsStr), RootError> {
        self.check_change(path)?;
        self.place(path)
    }

    /// Returns the mode of an existing file; an error if it must not be replaced.
    fn old(&self, parent: &OwnedFd, name: &OsStr, path: &Path) -> Result<Option<Mode>, RootError> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = match self.look_up(parent, Path::new(name), flags, Mode::empty()) {
            Ok(found) => found,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(RootError::of(error, path)),
        };
        let stat = self.regular(&found, path)?;
        if stat.st_nlink > 1 {
            return Err(RootError::Linked { path: error::shown(path) });
        }
        // Set-id bits and the sticky bit are not applied to new content.
        Ok(Some(Mode::from_raw_mode(stat.st_mode) & (Mode::RWXU | Mode::RWXG | Mode::RWXO)))
    }

    /// Creates an empty temporary file in `parent`.
    fn aside(&self, parent: &OwnedFd, mode: Mode) -> Result<(File, OsString), Errno> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..MOST_TRIES {
            // Only needs to be unused: O_EXCL guarantees that it is ours.
            let name = OsString::from(format!(".toolkeep-{:016x}", RandomState::new().hash_one(0)));
            match self.look_up(parent, Path::new(&name), flags, mode) {
                Err(Errno::EXIST) => {}
                other => return other.map(|fd| (File::from(fd), name)),
            }
        }
        Err(Errno::EXIST)
    }
}

/// Syncs the entries of a folder. A folder without read permission cannot be synced.
fn sync(folder: &OwnedFd) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat(folder, ".", flags, Mode::empty()) {
        Ok(folder) => rustix::fs::fsync(&folder),
        Err(Errno::ACCESS) => Ok(()),
        Err(error) => Err(error),
    }
}
