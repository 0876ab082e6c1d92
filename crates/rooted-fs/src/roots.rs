//! Rooted directories: file access that the kernel confines to a configured folder.
//!
//! A root is a directory handle, and the kernel confines every lookup to it (`openat2`, Linux 5.6).
//! No access decision compares or canonicalises paths, so there is no race between check and use.
//! Paths outside the root and missing paths return the same error. All calls block: run them where
//! blocking is allowed.

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

/// Largest number of retries after EAGAIN: something was renamed or mounted during a lookup
/// (openat2(2)).
const MOST_TRIES: usize = 16;
/// Largest number of folders between a file and its root.
const MOST_DEPTH: usize = 256;

/// Access mode of a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Listing and reading only.
    Read,
    /// Reading and writing.
    ReadWrite,
}

/// Type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link, which is listed but not followed.
    Link,
    /// A pipe, socket or device, which is listed but never opened.
    Other,
}

/// Metadata of a file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// Type of the file.
    pub kind: Kind,
    /// Size in bytes as the system reports it, which may change while others write.
    pub size: u64,
    /// Time of the last content change.
    pub modified: Wall,
    /// Whether the file mode allows writing for all users. Not meaningful for links.
    pub open: bool,
}

/// The first bytes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// Content up to the limit.
    pub content: Vec<u8>,
    /// Whether the file has more bytes.
    pub more: bool,
    /// Metadata of the file when it was opened.
    pub meta: Meta,
}

/// A path that leads to the same folder as long as this value lives.
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

/// Device and inode number: the identity of a folder, independent of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Id(u64, u64);

/// A directory handle whose lookups never leave it.
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
    /// Opens a root. `path` comes from the operator, so links in it are followed. The root stays
    /// this folder even if it is renamed.
    ///
    /// # Errors
    /// [`RootError::Root`] if it is not a folder, cannot be opened, or the system lacks `openat2`.
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

    /// Allows reading through relative links that stay inside the root. Writing never follows a
    /// link.
    #[must_use]
    pub fn through_links(mut self) -> Self {
        self.follows = true;
        self
    }

    /// Returns the resolve flags of reads.
    fn reads(&self) -> ResolveFlags {
        let mut resolve = self.resolve;
        resolve.set(ResolveFlags::NO_SYMLINKS, !self.follows);
        resolve
    }

    /// Restricts the root to its own file system: mounts below it are invisible.
    #[must_use]
    pub fn on_one_device(mut self) -> Self {
        self.resolve.insert(ResolveFlags::NO_XDEV);
        self
    }

    /// Hides a file or folder below the root with everything in it, by device and inode, so that
    /// renaming does not reveal it.
    ///
    /// # Errors
    /// [`RootError::NoSuch`] if it does not exist: then nothing would be hidden.
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

    /// Returns the access mode.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Returns a path to a folder below the root, for APIs that accept only paths. It goes through
    /// a handle, so it stays valid if parent folders are renamed. Lookups below it are not
    /// confined.
    ///
    /// # Errors
    /// [`RootError`].
    pub fn path_of(&self, path: impl AsRef<Path>) -> Result<FolderPath, RootError> {
        let path = path.as_ref();
        let folder = self.folder(path, path)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
        Ok(FolderPath { path, _folder: folder })
    }

    /// Returns the metadata of a file or folder. An empty path is the root.
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

    /// Opens a folder that is not hidden; an empty path is the root. Errors name `asked`.
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

    /// Opens the parent folder of `path` and returns the last component, which is never `..`.
    fn place<'a>(&self, path: &'a Path) -> Result<(OwnedFd, &'a OsStr), RootError> {
        self.place_by(path, path, self.resolve)
    }

    /// Opens the parent folder with these resolve flags; errors name `asked`.
    fn place_by<'a>(
        &self,
        path: &'a Path,
        asked: &Path,
        resolve: ResolveFlags,
    ) -> Result<(OwnedFd, &'a OsStr), RootError> {
        let (parent, name) = split(path).map_err(|_| RootError::of(Errno::NOENT, asked))?;
        Ok((self.folder_by(parent, asked, resolve)?, name))
    }

    /// Checks that neither this folder nor a parent is hidden.
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

    /// Checks that an open file is regular and not hidden.
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

/// Open flags of a folder that is only a starting point for lookups.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Open flags of a file: do not block on a FIFO, and do not acquire a terminal.
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
