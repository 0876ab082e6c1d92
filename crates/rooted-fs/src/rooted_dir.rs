//! Rooted directories: file access that the kernel confines to a configured folder.
//!
//! A root is a directory handle, and the kernel confines every lookup to it (`openat2`, Linux 5.6).
//! No access decision compares or canonicalises paths, so there is no race between check and use.
//! Paths outside the root and missing paths return the same error. All calls block: run them where
//! blocking is allowed.

mod access_error;
mod atomic_write;
mod dir_listing;
mod file_reading;
mod parent_traversal;

use std::ffi::OsStr;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use tool::WallTime;
use tool::clock::duration_millis;

pub use access_error::FileAccessError;
pub use atomic_write::WriteMode;
pub use dir_listing::{DirListing, RootedDirEntry};

use access_error::errno_message;
use parent_traversal::split_parent;

/// Largest number of retries after EAGAIN: something was renamed or mounted during a lookup
/// (openat2(2)).
const MAX_RETRIES: usize = 16;
/// Largest number of folders between a file and its root.
const MAX_DEPTH: usize = 256;

/// Access mode of a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessMode {
    /// Listing and reading only.
    ReadOnly,
    /// Reading and writing.
    ReadWrite,
}

/// Type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder.
    Directory,
    /// A symbolic link, which is listed but not followed.
    Symlink,
    /// A pipe, socket or device, which is listed but never opened.
    Other,
}

/// Metadata of a file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileMetadata {
    /// Type of the file.
    pub kind: FileKind,
    /// Size in bytes as the system reports it, which may change while others write.
    pub size: u64,
    /// Time of the last content change.
    pub modified: WallTime,
    /// Whether the file mode allows writing for all users. Not meaningful for links.
    pub is_world_writable: bool,
}

/// The first bytes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePrefix {
    /// Content up to the limit.
    pub content: Vec<u8>,
    /// Whether the file has more bytes.
    pub is_truncated: bool,
    /// Metadata of the file when it was opened.
    pub metadata: FileMetadata,
}

/// A path that leads to the same folder as long as this value lives.
#[derive(Debug)]
pub struct PinnedDirPath {
    path: PathBuf,
    _folder: OwnedFd,
}

impl AsRef<Path> for PinnedDirPath {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

/// Device and inode number: the identity of a folder, independent of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId(u64, u64);

/// A directory handle whose lookups never leave it.
pub struct RootedDir {
    dir: OwnedFd,
    dir_id: FileId,
    access: AccessMode,
    resolve_flags: ResolveFlags,
    /// Whether reading goes through links that stay inside.
    follows_links: bool,
    hidden_ids: Vec<FileId>,
}

impl RootedDir {
    /// Opens a root. `path` comes from the operator, so links in it are followed. The root stays
    /// this folder even if it is renamed.
    ///
    /// # Errors
    /// [`FileAccessError::InvalidRoot`] if it is not a folder, cannot be opened, or the system lacks `openat2`.
    pub fn open_root(path: impl AsRef<Path>, access: AccessMode) -> Result<Self, FileAccessError> {
        let path = path.as_ref();
        let unfit = |error: Errno| FileAccessError::InvalidRoot {
            path: access_error::display_path(path),
            what: errno_message(error),
        };
        let folder = rustix::fs::open(path, DIR_FLAGS, Mode::empty()).map_err(unfit)?;
        let id = file_id(&rustix::fs::fstat(&folder).map_err(unfit)?);
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
        let root = Self {
            dir: folder,
            dir_id: id,
            access,
            resolve_flags: resolve,
            follows_links: false,
            hidden_ids: Vec::new(),
        };
        match root.open_beneath(&root.dir, Path::new("."), DIR_FLAGS, Mode::empty()) {
            Ok(_) => Ok(root),
            Err(Errno::NOSYS | Errno::PERM) => Err(FileAccessError::InvalidRoot {
                path: access_error::display_path(path),
                what: "the system has no openat2 (Linux 5.6), or forbids it in this container"
                    .to_owned(),
            }),
            Err(error) => Err(unfit(error)),
        }
    }

    /// Allows reading through relative links that stay inside the root. Writing never follows a
    /// link.
    #[must_use]
    pub fn follow_dir_symlinks(mut self) -> Self {
        self.follows_links = true;
        self
    }

    /// Returns the resolve flags of reads.
    fn read_flags(&self) -> ResolveFlags {
        let mut resolve = self.resolve_flags;
        resolve.set(ResolveFlags::NO_SYMLINKS, !self.follows_links);
        resolve
    }

    /// Restricts the root to its own file system: mounts below it are invisible.
    #[must_use]
    pub fn stay_on_device(mut self) -> Self {
        self.resolve_flags.insert(ResolveFlags::NO_XDEV);
        self
    }

    /// Hides a file or folder below the root with everything in it, by device and inode, so that
    /// renaming does not reveal it.
    ///
    /// # Errors
    /// [`FileAccessError::NotFound`] if it does not exist: then nothing would be hidden.
    pub fn hide_path(mut self, path: impl AsRef<Path>) -> Result<Self, FileAccessError> {
        let path = path.as_ref();
        let found = self.open_beneath(
            &self.dir,
            path,
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        );
        let found = found
            .and_then(rustix::fs::fstat)
            .map_err(|error| FileAccessError::from_errno(error, path))?;
        self.hidden_ids.push(file_id(&found));
        Ok(self)
    }

    /// Returns the access mode.
    pub fn access_mode(&self) -> AccessMode {
        self.access
    }

    /// Returns a path to a folder below the root, for APIs that accept only paths. It goes through
    /// a handle, so it stays valid if parent folders are renamed. Lookups below it are not
    /// confined.
    ///
    /// # Errors
    /// [`FileAccessError`].
    pub fn pin_dir(&self, path: impl AsRef<Path>) -> Result<PinnedDirPath, FileAccessError> {
        let path = path.as_ref();
        let folder = self.open_dir(path, path)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
        Ok(PinnedDirPath { path, _folder: folder })
    }

    /// Returns the metadata of a file or folder. An empty path is the root.
    ///
    /// # Errors
    /// [`FileAccessError`].
    pub fn read_metadata(&self, path: impl AsRef<Path>) -> Result<FileMetadata, FileAccessError> {
        let path = path.as_ref();
        let found = match self.open_parent_with(path, path, self.read_flags()) {
            Ok((parent, name)) => {
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                self.open_beneath(&parent, Path::new(name), flags, Mode::empty())
                    .map_err(|error| FileAccessError::from_errno(error, path))?
            }
            Err(_) => self.open_dir_with(path, path, self.read_flags())?,
        };
        let stat =
            rustix::fs::fstat(&found).map_err(|error| FileAccessError::from_errno(error, path))?;
        self.ensure_not_hidden(&stat, path)?;
        Ok(metadata_from_stat(&stat))
    }

    /// Opens `path` beneath `at`, which is the root or was opened beneath it.
    fn open_beneath(
        &self,
        at: impl AsFd,
        path: &Path,
        flags: OFlags,
        mode: Mode,
    ) -> Result<OwnedFd, Errno> {
        Self::open_beneath_with(at, path, (flags, mode), self.resolve_flags)
    }

    fn open_beneath_with(
        at: impl AsFd,
        path: &Path,
        (flags, mode): (OFlags, Mode),
        resolve: ResolveFlags,
    ) -> Result<OwnedFd, Errno> {
        let mut last = Errno::AGAIN;
        for _ in 0..MAX_RETRIES {
            match rustix::fs::openat2(at.as_fd(), path, flags, mode, resolve) {
                Err(error @ (Errno::AGAIN | Errno::INTR)) => last = error,
                other => return other,
            }
        }
        Err(last)
    }

    /// Opens a folder that is not hidden; an empty path is the root. Errors name `asked`.
    fn open_dir(&self, path: &Path, asked: &Path) -> Result<OwnedFd, FileAccessError> {
        self.open_dir_with(path, asked, self.resolve_flags)
    }

    fn open_dir_with(
        &self,
        path: &Path,
        asked: &Path,
        resolve: ResolveFlags,
    ) -> Result<OwnedFd, FileAccessError> {
        let inside = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let found = if parent_traversal::has_parent_component(inside)
            && resolve.contains(ResolveFlags::NO_SYMLINKS)
        {
            self.resolve_with_parents(inside)
        } else {
            Self::open_beneath_with(&self.dir, inside, (DIR_FLAGS, Mode::empty()), resolve)
        };
        let found = found.and_then(|found| self.ensure_visible(&found).map(|()| found));
        found.map_err(|error| FileAccessError::from_errno(error, asked))
    }

    /// Opens the parent folder of `path` and returns the last component, which is never `..`.
    fn open_parent<'a>(&self, path: &'a Path) -> Result<(OwnedFd, &'a OsStr), FileAccessError> {
        self.open_parent_with(path, path, self.resolve_flags)
    }

    /// Opens the parent folder with these resolve flags; errors name `asked`.
    fn open_parent_with<'a>(
        &self,
        path: &'a Path,
        asked: &Path,
        resolve: ResolveFlags,
    ) -> Result<(OwnedFd, &'a OsStr), FileAccessError> {
        let (parent, name) =
            split_parent(path).map_err(|_| FileAccessError::from_errno(Errno::NOENT, asked))?;
        Ok((self.open_dir_with(parent, asked, resolve)?, name))
    }

    /// Checks that neither this folder nor a parent is hidden.
    fn ensure_visible(&self, folder: &OwnedFd) -> Result<(), Errno> {
        if self.hidden_ids.is_empty() {
            return Ok(());
        }
        let mut id = file_id(&rustix::fs::fstat(folder)?);
        let mut at = None;
        for _ in 0..MAX_DEPTH {
            if self.hidden_ids.contains(&id) {
                return Err(Errno::NOENT);
            }
            if id == self.dir_id {
                return Ok(());
            }
            let above =
                rustix::fs::openat(at.as_ref().unwrap_or(folder), "..", DIR_FLAGS, Mode::empty())?;
            id = file_id(&rustix::fs::fstat(&above)?);
            at = Some(above);
        }
        Err(Errno::NOENT)
    }

    fn ensure_not_hidden(&self, stat: &Stat, path: &Path) -> Result<(), FileAccessError> {
        let hidden = self.hidden_ids.contains(&file_id(stat));
        if hidden { Err(FileAccessError::from_errno(Errno::NOENT, path)) } else { Ok(()) }
    }

    /// Checks that an open file is regular and not hidden.
    fn ensure_regular_file(&self, file: &OwnedFd, path: &Path) -> Result<Stat, FileAccessError> {
        let stat =
            rustix::fs::fstat(file).map_err(|error| FileAccessError::from_errno(error, path))?;
        self.ensure_not_hidden(&stat, path)?;
        match metadata_from_stat(&stat).kind {
            FileKind::File => Ok(stat),
            FileKind::Symlink => Err(FileAccessError::from_errno(Errno::LOOP, path)),
            FileKind::Directory | FileKind::Other => {
                Err(FileAccessError::NotRegularFile { path: access_error::display_path(path) })
            }
        }
    }
}

/// Open flags of a folder that is only a starting point for lookups.
const DIR_FLAGS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Open flags of a file: do not block on a FIFO, and do not acquire a terminal.
const READ_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOCTTY);

fn file_id(stat: &Stat) -> FileId {
    FileId(stat.st_dev, stat.st_ino)
}

fn metadata_from_stat(stat: &Stat) -> FileMetadata {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        _ => FileKind::Other,
    };
    let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
    let modified = Duration::from_secs(seconds) + Duration::from_nanos(stat.st_mtime_nsec);
    let modified = WallTime(duration_millis(modified));
    let open = Mode::from_raw_mode(stat.st_mode).contains(Mode::WOTH);
    FileMetadata {
        kind,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        modified,
        is_world_writable: open,
    }
}

impl fmt::Debug for RootedDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Root")
            .field("access", &self.access)
            .field("resolve", &self.resolve_flags)
            .finish_non_exhaustive()
    }
}
