//! Folders that tools may use, and nothing outside of them.
//!
//! A root is a handle to a folder, and the kernel itself keeps every look-up beneath it (`openat2`,
//! Linux 5.6): no path is joined, made canonical or compared to decide anything, so there is no
//! moment between a check and a use. What is outside and what is not there get the same answer.
//! All calls here block: run them where blocking is allowed.

mod error;
mod list;
mod read;
mod steps;
mod write;

use std::ffi::OsStr;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use tool::Wall;

pub use error::RootError;
pub use list::{Entry, Listing};
pub use write::Put;

use error::told;
use steps::split;

/// Most tries where the kernel asks to try again, as something was renamed or mounted during a
/// look-up (openat2(2), EAGAIN).
const MOST_TRIES: usize = 16;
/// Most folders between a file and its root.
const MOST_DEPTH: usize = 256;

/// What may be done in a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Look and read.
    Read,
    /// Write, too.
    ReadWrite,
}

/// What something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link, which is shown but not followed.
    Link,
    /// A pipe, socket or device: shown, and never opened.
    Other,
}

/// What is known of a file or folder without opening it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// What it is.
    pub kind: Kind,
    /// In bytes; as the system says, which may be wrong while others write.
    pub size: u64,
    /// When its content changed last.
    pub modified: Wall,
    /// Whether every user of the machine may change it, by its mode; of a link that says nothing.
    pub open: bool,
}

/// How a file begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The bytes.
    pub content: Vec<u8>,
    /// Whether there are more.
    pub more: bool,
    /// The file, when it was opened.
    pub meta: Meta,
}

/// A path that leads to a folder as long as this is held.
#[derive(Debug)]
pub struct FolderPath {
    path: PathBuf,
    _folder: OwnedFd,
}

impl AsRef<Path> for FolderPath {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

/// Device and number: what a folder is, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Id(u64, u64);

/// A folder that tools may use.
pub struct Root {
    folder: OwnedFd,
    id: Id,
    access: Access,
    resolve: ResolveFlags,
    /// Whether reading goes through links that stay inside.
    follows: bool,
    protected: Vec<Id>,
}

impl Root {
    /// Opens a root. `path` is the operator's own: links in it are followed. It stays this folder,
    /// also where it is renamed.
    ///
    /// # Errors
    /// [`RootError::Root`] where it is no folder, may not be opened, or the system lacks `openat2`.
    pub fn open(path: impl AsRef<Path>, access: Access) -> Result<Self, RootError> {
        let path = path.as_ref();
        let unfit = |error: Errno| RootError::Root { path: error::shown(path), what: told(error) };
        let folder = rustix::fs::open(path, FOLDER, Mode::empty()).map_err(unfit)?;
        let id = id_of(&rustix::fs::fstat(&folder).map_err(unfit)?);
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
        let root = Self { folder, id, access, resolve, follows: false, protected: Vec::new() };
        match root.look_up(&root.folder, Path::new("."), FOLDER, Mode::empty()) {
            Ok(_) => Ok(root),
            Err(Errno::NOSYS | Errno::PERM) => Err(RootError::Root {
                path: error::shown(path),
                what: "the system has no openat2 (Linux 5.6), or forbids it in this container"
                    .to_owned(),
            }),
            Err(error) => Err(unfit(error)),
        }
    }

    /// Reads also through links to files and folders, as long as they are relative and lead to inside.
    /// Nothing is written through one.
    #[must_use]
    pub fn through_links(mut self) -> Self {
        self.follows = true;
        self
    }

    /// How a path that is read is resolved.
    fn reads(&self) -> ResolveFlags {
        let mut resolve = self.resolve;
        resolve.set(ResolveFlags::NO_SYMLINKS, !self.follows);
        resolve
    }

    /// Stays on the root's own file system: what is mounted below it is not there.
    #[must_use]
    pub fn on_one_device(mut self) -> Self {
        self.resolve.insert(ResolveFlags::NO_XDEV);
        self
    }

    /// Hides a file or folder below the root, and all in it, by what it is now and not by its name.
    ///
    /// # Errors
    /// [`RootError::NoSuch`] where it is not there: then nothing would be protected.
    pub fn protect(mut self, path: impl AsRef<Path>) -> Result<Self, RootError> {
        let path = path.as_ref();
        let found = self.look_up(
            &self.folder,
            path,
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        );
        let found =
            found.and_then(rustix::fs::fstat).map_err(|error| RootError::of(error, path))?;
        self.protected.push(id_of(&found));
        Ok(self)
    }

    /// What may be done here.
    pub fn access(&self) -> Access {
        self.access
    }

    /// A path that leads to a folder below the root, for what takes nothing but paths: through the root's
    /// own handle, so that it stays this one where folders above it are renamed. What is below that
    /// folder is not guarded.
    ///
    /// # Errors
    /// [`RootError`].
    pub fn path_of(&self, path: impl AsRef<Path>) -> Result<FolderPath, RootError> {
        let path = path.as_ref();
        let folder = self.folder(path, path)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
        Ok(FolderPath { path, _folder: folder })
    }

    /// What a file or folder is. An empty path is the root.
    ///
    /// # Errors
    /// [`RootError`].
    pub fn stat(&self, path: impl AsRef<Path>) -> Result<Meta, RootError> {
        let path = path.as_ref();
        let found = match self.place_by(path, path, self.reads()) {
            Ok((parent, name)) => {
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                self.look_up(&parent, Path::new(name), flags, Mode::empty())
                    .map_err(|error| RootError::of(error, path))?
            }
            Err(_) => self.folder_by(path, path, self.reads())?,
        };
        let stat = rustix::fs::fstat(&found).map_err(|error| RootError::of(error, path))?;
        self.unhidden(&stat, path)?;
        Ok(meta(&stat))
    }

    /// Opens `path` beneath `at`, which is the root or was opened beneath it.
    fn look_up(
        &self,
        at: impl AsFd,
        path: &Path,
        flags: OFlags,
        mode: Mode,
    ) -> Result<OwnedFd, Errno> {
        Self::look_up_by(at, path, (flags, mode), self.resolve)
    }

    fn look_up_by(
        at: impl AsFd,
        path: &Path,
        (flags, mode): (OFlags, Mode),
        resolve: ResolveFlags,
    ) -> Result<OwnedFd, Errno> {
        let mut last = Errno::AGAIN;
        for _ in 0..MOST_TRIES {
            match rustix::fs::openat2(at.as_fd(), path, flags, mode, resolve) {
                Err(error @ (Errno::AGAIN | Errno::INTR)) => last = error,
                other => return other,
            }
        }
        Err(last)
    }

    /// A folder, which is not hidden; an empty path is the root. Errors name `asked`.
    fn folder(&self, path: &Path, asked: &Path) -> Result<OwnedFd, RootError> {
        self.folder_by(path, asked, self.resolve)
    }

    fn folder_by(
        &self,
        path: &Path,
        asked: &Path,
        resolve: ResolveFlags,
    ) -> Result<OwnedFd, RootError> {
        let inside = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let found = if steps::up(inside) && resolve.contains(ResolveFlags::NO_SYMLINKS) {
            self.walk(inside)
        } else {
            Self::look_up_by(&self.folder, inside, (FOLDER, Mode::empty()), resolve)
        };
        let found = found.and_then(|found| self.up_to_root(&found).map(|()| found));
        found.map_err(|error| RootError::of(error, asked))
    }

    /// The folder that `path` is in, and its name there: one name, which is no step up.
    fn place<'a>(&self, path: &'a Path) -> Result<(OwnedFd, &'a OsStr), RootError> {
        self.place_by(path, path, self.resolve)
    }

    /// The same, resolved so; errors name `asked`.
    fn place_by<'a>(
        &self,
        path: &'a Path,
        asked: &Path,
        resolve: ResolveFlags,
    ) -> Result<(OwnedFd, &'a OsStr), RootError> {
        let (parent, name) = split(path).map_err(|_| RootError::of(Errno::NOENT, asked))?;
        Ok((self.folder_by(parent, asked, resolve)?, name))
    }

    /// That neither this folder nor one above it is hidden.
    fn up_to_root(&self, folder: &OwnedFd) -> Result<(), Errno> {
        if self.protected.is_empty() {
            return Ok(());
        }
        let mut id = id_of(&rustix::fs::fstat(folder)?);
        let mut at = None;
        for _ in 0..MOST_DEPTH {
            if self.protected.contains(&id) {
                return Err(Errno::NOENT);
            }
            if id == self.id {
                return Ok(());
            }
            let above =
                rustix::fs::openat(at.as_ref().unwrap_or(folder), "..", FOLDER, Mode::empty())?;
            id = id_of(&rustix::fs::fstat(&above)?);
            at = Some(above);
        }
        Err(Errno::NOENT)
    }

    fn unhidden(&self, stat: &Stat, path: &Path) -> Result<(), RootError> {
        let hidden = self.protected.contains(&id_of(stat));
        if hidden { Err(RootError::of(Errno::NOENT, path)) } else { Ok(()) }
    }

    /// That an open file is a regular one, and not hidden.
    fn regular(&self, file: &OwnedFd, path: &Path) -> Result<Stat, RootError> {
        let stat = rustix::fs::fstat(file).map_err(|error| RootError::of(error, path))?;
        self.unhidden(&stat, path)?;
        match meta(&stat).kind {
            Kind::File => Ok(stat),
            Kind::Link => Err(RootError::of(Errno::LOOP, path)),
            Kind::Folder | Kind::Other => Err(RootError::NotAFile { path: error::shown(path) }),
        }
    }
}

/// How a folder is held: not to read it, only to go on from it.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// How a file is opened: without waiting for a pipe's writer, and without taking a terminal.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOCTTY);

fn id_of(stat: &Stat) -> Id {
    Id(stat.st_dev, stat.st_ino)
}

fn meta(stat: &Stat) -> Meta {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Folder,
        FileType::Symlink => Kind::Link,
        _ => Kind::Other,
    };
    let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
    let modified = Duration::from_secs(seconds) + Duration::from_nanos(stat.st_mtime_nsec);
    let modified = Wall(u64::try_from(modified.as_millis()).unwrap_or(u64::MAX));
    let open = Mode::from_raw_mode(stat.st_mode).contains(Mode::WOTH);
    Meta { kind, size: u64::try_from(stat.st_size).unwrap_or(0), modified, open }
}

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Root")
            .field("access", &self.access)
            .field("resolve", &self.resolve)
            .finish_non_exhaustive()
    }
}
