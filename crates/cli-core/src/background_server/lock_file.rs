//! Exclusive and shared locks on files of a data directory.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::data_dir::DataDir;

/// A locked file; dropping it releases the lock.
#[derive(Debug)]
pub(super) struct LockFile {
    _file: File,
}

impl LockFile {
    /// Locks the file exclusively; `None` if another process has it.
    pub(super) fn try_exclusive(data_dir: &DataDir, name: &str) -> io::Result<Option<Self>> {
        Self::try_lock(open_lock_file(&data_dir.path().join(name), true)?, File::try_lock)
    }

    /// Locks an existing file exclusively; an error if it does not exist.
    pub(super) fn try_exclusive_existing(
        data_dir: &DataDir,
        name: &str,
    ) -> io::Result<Option<Self>> {
        Self::try_lock(open_lock_file(&data_dir.path().join(name), false)?, File::try_lock)
    }

    /// Locks the file shared; `None` if a process has it exclusively.
    pub(super) fn try_shared(data_dir: &DataDir, name: &str) -> io::Result<Option<Self>> {
        Self::try_lock(open_lock_file(&data_dir.path().join(name), true)?, File::try_lock_shared)
    }

    fn try_lock(
        file: File,
        lock: impl Fn(&File) -> Result<(), TryLockError>,
    ) -> io::Result<Option<Self>> {
        match lock(&file) {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

fn open_lock_file(path: &Path, create: bool) -> io::Result<File> {
    OpenOptions::new().create(create).truncate(false).write(true).mode(0o600).open(path)
}
