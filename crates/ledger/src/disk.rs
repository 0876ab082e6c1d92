//! The port to the disk: as little of a file system as the ledger needs, so that a simulated disk
//! can stand behind the real code in tests.
//!
//! What a [`Disk`] promises is what POSIX does and no more: a write is on the disk after
//! [`DiskFile::sync`] came back, a name after [`Disk::sync_dir`] did.

mod real;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

pub use real::RealDisk;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// To read; it must be there.
    Read,
    /// To write behind its end; it must be there.
    Append,
    /// To write at places in it; it must be there.
    Update,
    /// To write from nothing; what was there is gone.
    New,
}

/// Names the time since the system was started last. While it is the same, all that was written is there.
pub type BootId = [u8; 16];

/// What is held until it is dropped.
pub type Held = Box<dyn fmt::Debug + Send + Sync>;

/// A file system.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Makes `dir` and what leads to it, readable by its owner only; nothing where it is there.
    ///
    /// # Errors
    /// The system's.
    fn make_dir(&self, dir: &Path) -> io::Result<()>;

    /// The names in `dir`, in no order. Names that are not UTF-8 are left out.
    ///
    /// # Errors
    /// The system's; or more than 100,000 names.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Opens a file.
    ///
    /// # Errors
    /// The system's.
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>>;

    /// Gives `from` the name `to`; what had it is gone. Both names or none are seen, even after a
    /// crash.
    ///
    /// # Errors
    /// The system's.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Takes the name away, and with it the file once nobody has it open.
    ///
    /// # Errors
    /// The system's.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Waits until the names in `dir` are on the disk.
    ///
    /// # Errors
    /// The system's.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Takes `path` for this process alone, until what is returned is dropped.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] where another process has it; else the system's.
    fn lock(&self, path: &Path) -> io::Result<Held>;

    /// Names the time since the system was started last; `None` where the system does not say. A file keeps all that
    /// was written to it as long as this stays the same, also where the process that wrote it was killed.
    fn boot(&self) -> Option<BootId>;
}

/// An open file. Every method may be called while another one runs.
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Hands `bytes` to the system in one call, behind the end. Returns how many it took.
    ///
    /// # Errors
    /// The system's; nothing was taken then.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Replaces the bytes at `offset`, all of which lie in one sector and are there already. All of them are
    /// replaced or none, also where the process is killed or the power goes.
    ///
    /// # Errors
    /// The system's; nothing was replaced then.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Reads at `offset`. Returns how many bytes were there; 0 at the end.
    ///
    /// # Errors
    /// The system's.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Bytes in the file.
    ///
    /// # Errors
    /// The system's.
    fn size(&self) -> io::Result<u64>;

    /// Cuts the file to `size` bytes, and gives back what [`DiskFile::reserve`] set aside.
    ///
    /// # Errors
    /// The system's.
    fn truncate(&self, size: u64) -> io::Result<()>;

    /// Waits until what was written before is on the disk.
    ///
    /// # Errors
    /// The system's. It may then be lost already, and asking again proves nothing.
    fn sync(&self) -> io::Result<()>;

    /// Sets room aside for the bytes from `from` to `to`, without changing the size: appends up to
    /// there do not fail for want of room. `false` where the file system cannot do that.
    ///
    /// # Errors
    /// [`io::ErrorKind::StorageFull`] where there is no such room; else the system's.
    fn reserve(&self, from: u64, to: u64) -> io::Result<bool>;
}

/// Whether `error` says that there is no room, rather than that something is broken.
pub(crate) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

/// Appends all of `bytes`. Where the system takes only a part, the rest is tried once more, which
/// gives either success or the reason.
pub(crate) fn append_all(file: &dyn DiskFile, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.append(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(taken) => bytes = bytes.get(taken..).ok_or(io::ErrorKind::InvalidData)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads at `at` until `into` is full or the file ends. Returns how many bytes were there.
pub(crate) fn read_all(file: &dyn DiskFile, at: u64, into: &mut [u8]) -> io::Result<usize> {
    let mut have = 0;
    while let Some(rest) = into.get_mut(have..).filter(|rest| !rest.is_empty()) {
        match file.read_at(at + have as u64, rest)? {
            0 => break,
            read => have += read,
        }
    }
    Ok(have)
}
