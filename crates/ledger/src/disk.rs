//! Disk port: the file system operations that the ledger needs, so that tests can run the real code
//! on a simulated disk.
//!
//! The guarantees of a [`Disk`] are those of POSIX: a write is durable after
//! [`DiskFile::sync_data`] has returned, and a name after [`Disk::sync_dir`] has returned.

mod os_disk;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

pub use os_disk::OsDisk;

/// Mode in which a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Opens an existing file for reads.
    Read,
    /// Opens an existing file for appends.
    Append,
    /// Opens an existing file for writes at any offset.
    Update,
    /// Creates an empty file, or truncates an existing one.
    Truncate,
}

/// Identifier of the current boot. Within one boot, completed writes are not lost.
pub type BootId = [u8; 16];

/// Guard of a lock; dropping it releases the lock.
pub type DirLock = Box<dyn fmt::Debug + Send + Sync>;

/// File system operations that the ledger uses.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Creates `dir` and its parents, accessible to their owner only. Existing directories are
    /// kept.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Returns the names in `dir` in any order, without names that are not UTF-8.
    ///
    /// # Errors
    /// Errors of the operating system, and an error for more than 100,000 names.
    fn list_names(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Opens a file.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn open_file(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn DiskFile>>;

    /// Renames `from` to `to` and replaces an existing file. The rename is atomic, also in a crash.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn rename_file(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a name. The file is deleted when its last handle is closed.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Waits until the names in `dir` are durable.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Locks `path` for this process until the returned guard is dropped.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if another process holds the lock; else errors of the
    /// operating system.
    fn lock_file(&self, path: &Path) -> io::Result<DirLock>;

    /// Returns the identifier of the current boot; `None` if the system does not provide one. While
    /// it is unchanged, files keep all completed writes, even if the writing process was killed.
    fn boot_id(&self) -> Option<BootId>;

    /// Returns the free bytes of the disk with `dir`; `None` if the system does not tell.
    fn free_bytes(&self, _dir: &Path) -> Option<u64> {
        None
    }
}

/// An open file. Its methods may run concurrently.
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Appends `bytes` in one system call. Returns the number of bytes written.
    ///
    /// # Errors
    /// Errors of the operating system; nothing was written then.
    fn append_bytes(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Replaces existing bytes at `offset`, which must lie within one sector. The write is atomic,
    /// even if the process is killed or the power fails.
    ///
    /// # Errors
    /// Errors of the operating system; nothing was replaced then.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Reads at `offset`. Returns the number of bytes read; 0 at the end of the file.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Returns the size of the file in bytes.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn file_size(&self) -> io::Result<u64>;

    /// Truncates the file to `size` bytes and releases the range that [`DiskFile::allocate_range`]
    /// allocated.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn truncate_to(&self, size: u64) -> io::Result<()>;

    /// Waits until all previous writes are durable.
    ///
    /// # Errors
    /// Errors of the operating system. The data may be lost then, and a second call that succeeds
    /// does not prove the opposite.
    fn sync_data(&self) -> io::Result<()>;

    /// Allocates disk space for the bytes from `from` to `to` without changing the file size, so
    /// that appends in this range do not run out of space. Returns `false` if the file system does
    /// not support it.
    ///
    /// # Errors
    /// [`io::ErrorKind::StorageFull`] if the space is not available; else errors of the operating
    /// system.
    fn allocate_range(&self, from: u64, to: u64) -> io::Result<bool>;
}

/// Returns whether `error` reports a full disk or an exceeded quota.
pub(crate) fn is_storage_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

/// Appends all of `bytes`. After a partial write the rest is written again, which either succeeds
/// or returns the error.
pub(crate) fn append_all(file: &dyn DiskFile, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.append_bytes(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(taken) => bytes = bytes.get(taken..).ok_or(io::ErrorKind::InvalidData)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads at `offset` until `buffer` is full or the file ends. Returns the number of bytes read.
pub(crate) fn read_fully(file: &dyn DiskFile, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut have = 0;
    while let Some(rest) = buffer.get_mut(have..).filter(|rest| !rest.is_empty()) {
        match file.read_at(offset + have as u64, rest)? {
            0 => break,
            read => have += read,
        }
    }
    Ok(have)
}
