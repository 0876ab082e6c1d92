//! The data directory: who holds it, where its server listens, and the keys of the first start.

mod key_files;
mod server_file;

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use ledger::signed::RecordKey;
use rooted_fs::private_file;
use store::MacFile;
use tool::Secret;

use super::failure::{Exit, Failure};
pub use key_files::RECOVER;
pub use key_files::revocation;
pub use key_files::{FirstKey, KeyChanges, KeyState};

pub use server_file::{Server, named};

/// Locked by the process that holds the directory.
const LOCK: &str = "server.lock";
/// The folder of language models.
pub const MODELS: &str = "models";
/// With less room than this, in bytes, a disk counts as full: a store cannot be opened there.
const FULL: u64 = 1 << 20;
/// The longest key file that is read, in bytes.
const KEY_FILE: u64 = 1024;

/// A data directory, held or not.
#[derive(Debug, Clone)]
pub struct DataDir {
    path: PathBuf,
}

/// A data directory that this process holds: no other writes to it.
#[derive(Debug)]
pub struct Held {
    data: DataDir,
    /// Locked as long as it is open.
    _lock: File,
}

impl DataDir {
    /// The directory at `path`, there or not.
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The store's file.
    pub fn store(&self) -> PathBuf {
        self.path.join("store.db")
    }

    /// The record's directory.
    pub fn records(&self) -> PathBuf {
        self.path.join("records")
    }

    /// The key that signs the record's checkpoints; what pins are sealed with comes from it too.
    pub fn record_key(&self) -> PathBuf {
        self.path.join("record.key")
    }

    /// The MACs of the store's rows, which are no rows of it.
    pub fn macs(&self, key: &RecordKey) -> MacFile {
        MacFile { path: self.path.join("store.macs"), secret: key.text() }
    }

    /// The folder of the tools that read and write files.
    pub fn work(&self) -> PathBuf {
        self.path.join("work")
    }

    /// The file of a key.
    pub fn key_file(&self, key: FirstKey) -> PathBuf {
        self.path.join(key.file())
    }

    /// Where language models are installed.
    pub fn models(&self) -> PathBuf {
        self.path.join(MODELS)
    }

    /// Makes it where it is not there.
    ///
    /// # Errors
    /// Where it cannot be made, or closed to others.
    pub fn make(&self) -> Result<(), Failure> {
        let make = DirBuilder::new().recursive(true).mode(0o700).create(&self.path);
        make.map_err(|error| self.failed("cannot be made", &error))?;
        self.close_to_others()
    }

    /// Takes hold of it, makes it where it is not there; `None` where another process holds it.
    ///
    /// # Errors
    /// Where it cannot be made or opened.
    pub fn hold(&self) -> Result<Option<Held>, Failure> {
        self.make()?;
        let lock = self.path.join(LOCK);
        let mut options = OpenOptions::new();
        let lock = options.create(true).truncate(false).write(true).mode(0o600).open(lock);
        let mut lock = lock.map_err(|error| self.failed("cannot be locked", &error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(self.failed("cannot be locked", &error)),
        }
        // For the message of a process that has to wait. Where it cannot be written, that one names no process.
        drop(lock.set_len(0).and_then(|()| write!(lock, "{}", std::process::id())));
        let held = Held { data: self.clone(), _lock: lock };
        // What a server that was killed has left would send others to an address that is no more.
        held.forget_server();
        Ok(Some(held))
    }

    /// A directory that is ours alone is closed. One that holds other things too is left as it is, and
    /// not used where others may write to it: they could put files of their own in place of ours.
    fn close_to_others(&self) -> Result<(), Failure> {
        let read = |error: io::Error| self.failed("cannot be read", &error);
        let mode = fs::metadata(&self.path).map_err(read)?.permissions().mode();
        let (seen, written) = (mode & 0o077, mode & 0o022);
        if seen == 0 {
            return Ok(());
        }
        let ours = self.path.join(LOCK).exists()
            || fs::read_dir(&self.path).map_err(read)?.next().is_none();
        if ours {
            return fs::set_permissions(&self.path, fs::Permissions::from_mode(0o700))
                .map_err(|error| self.failed("is open to others and cannot be closed", &error));
        }
        if written == 0 {
            return Ok(());
        }
        let path = self.path.display();
        let message = format!("`{path}` holds other things, and others may write to it");
        Err(Failure::new(Exit::NoServer, message)
            .fix("give the data a directory of its own with `--data DIR`"))
    }

    /// The process that holds it, where it said so.
    pub(crate) fn holder(&self) -> Option<u32> {
        fs::read_to_string(self.path.join(LOCK)).ok()?.parse().ok()
    }

    /// Whether a process holds it now. Changes nothing.
    pub fn is_held(&self) -> bool {
        let lock = File::open(self.path.join(LOCK));
        lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// The key in a file.
    pub fn key(&self, key: FirstKey) -> Result<Secret, Failure> {
        let path = self.key_file(key);
        key_in(&path).map(Secret::new).map_err(|error| {
            let message = format!("the key `{}` cannot be read: {error}", path.display());
            let fix = format!("give a key by `--key` or TOOLKEEP_KEY; where it is lost, {RECOVER}");
            Failure::new(Exit::Refused, message).fix(fix)
        })
    }

    /// The key that signs the record's checkpoints; `None` where there is none yet.
    pub fn record_key_there(&self) -> Result<Option<RecordKey>, Failure> {
        let path = self.record_key();
        if !path.exists() {
            return Ok(None);
        }
        let read = key_in(&path);
        let text = read.map_err(|error| self.no_key(&format!("cannot be read: {error}")))?;
        let key = RecordKey::read(&text);
        key.map(Some).map_err(|error| self.no_key(&format!("is none: {error}")))
    }

    fn no_key(&self, what: &str) -> Failure {
        let message = format!("the record's key `{}` {what}", self.record_key().display());
        Failure::new(Exit::NoServer, message).fix(
            "put it back from a copy; or move it away: checkpoints are signed by a new one then, and all rows of \
             the store are adopted as they are but the pins, whose tools wait",
        )
    }

    pub(crate) fn failed(&self, what: &str, error: &io::Error) -> Failure {
        let message = format!("the data directory `{}` {what}: {error}", self.path.display());
        let failure = Failure::new(Exit::NoServer, message);
        self.on_full_disk(failure.fix("choose another one with `--data DIR`"))
    }

    /// Bytes that are free on its disk, or on that of the folder above where it is not there yet.
    pub fn free_bytes(&self) -> Option<u64> {
        let system = self.path.ancestors().find_map(|path| rustix::fs::statvfs(path).ok())?;
        Some(system.f_bavail.saturating_mul(system.f_frsize))
    }

    /// Adds that the disk is full to what failed on it; a failure on another disk stays as it is.
    pub fn on_full_disk(&self, failure: Failure) -> Failure {
        let Some(free) = self.free_bytes().filter(|free| *free < FULL) else { return failure };
        let path = self.path.display();
        let message = format!("{failure}; the disk of `{path}` is full ({} KiB free)", free >> 10);
        let fix =
            format!("free space on the disk of `{path}`, or choose another one with `--data DIR`");
        Failure::new(failure.exit(), message).fix(fix)
    }
}

/// The key that a file holds.
pub fn key_in(path: &Path) -> io::Result<String> {
    Ok(rooted_fs::files::read_text(path, KEY_FILE)?.trim().to_owned())
}

impl Held {
    /// The directory.
    pub fn data(&self) -> &DataDir {
        &self.data
    }

    /// The key that signs the record's checkpoints, made where it is not there.
    ///
    /// # Errors
    /// Where the file is no key, or cannot be read or made. Another key is never put in its place.
    pub fn record_key(&self) -> Result<RecordKey, Failure> {
        if let Some(key) = self.data.record_key_there()? {
            return Ok(key);
        }
        let fresh = RecordKey::fresh().map_err(|error| self.data.no_key(&error.to_string()))?;
        let text = format!("{}\n", fresh.text().open());
        private_file::create_with(&self.data.record_key(), text.as_bytes())
            .map_err(|error| self.data.no_key(&format!("cannot be written: {error}")))?;
        Ok(fresh)
    }
}

#[cfg(test)]
mod tests;
