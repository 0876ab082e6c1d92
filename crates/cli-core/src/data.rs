//! The data directory: its lock, the descriptor of its server, and the initial keys.

mod key_files;
mod server_file;

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use ledger::signed::RecordKey;
use rooted_fs::private_file;
use tool::Secret;

use super::failure::{Exit, Failure};
pub use key_files::RECOVER;
pub use key_files::{FirstKey, KeyChanges, KeyState};

pub use server_file::{Server, named};

/// The lock file of the process that uses the directory.
const LOCK: &str = "server.lock";
/// The directory of language models.
pub const MODELS: &str = "models";
/// Free bytes below which a disk counts as full: a store cannot be opened there.
const FULL: u64 = 1 << 20;
/// Maximum size of a key file, in bytes.
const KEY_FILE: u64 = 1024;

/// The path of a data directory, whether locked or not.
#[derive(Debug, Clone)]
pub struct DataDir {
    path: PathBuf,
}

/// A data directory locked by this process; no other process writes to it.
#[derive(Debug)]
pub struct Held {
    data: DataDir,
    /// The file that is locked as long as it is open.
    _lock: File,
}

impl DataDir {
    /// The data directory at `path`, which need not exist.
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the store file.
    pub fn store(&self) -> PathBuf {
        self.path.join("store.db")
    }

    /// The path of the record's directory.
    pub fn records(&self) -> PathBuf {
        self.path.join("records")
    }

    /// The file of the key that signs the record's checkpoints; the key that seals pins is derived
    /// from it.
    pub fn record_key(&self) -> PathBuf {
        self.path.join("record.key")
    }

    /// The file with the MACs of the store's rows, which is separate from the store.
    pub fn macs(&self) -> PathBuf {
        self.path.join("store.macs")
    }

    /// The directory of the tools that read and write files.
    pub fn work(&self) -> PathBuf {
        self.path.join("work")
    }

    /// The path of an initial key's file.
    pub fn key_file(&self, key: FirstKey) -> PathBuf {
        self.path.join(key.file())
    }

    /// The directory where language models are installed.
    pub fn models(&self) -> PathBuf {
        self.path.join(MODELS)
    }

    /// Creates the directory if it does not exist.
    ///
    /// # Errors
    /// Returns an error if it cannot be created or made private.
    pub fn make(&self) -> Result<(), Failure> {
        let make = DirBuilder::new().recursive(true).mode(0o700).create(&self.path);
        make.map_err(|error| self.failed("cannot be made", &error))?;
        self.close_to_others()
    }

    /// Locks the directory and creates it if necessary; `None` if another process holds it.
    ///
    /// # Errors
    /// Returns an error if it cannot be created or opened.
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
        // Names the holder in the message of a waiting process. If it cannot be written, the
        // message names none.
        drop(lock.set_len(0).and_then(|()| write!(lock, "{}", std::process::id())));
        let held = Held { data: self.clone(), _lock: lock };
        // A killed server's descriptor would send others to a stale address.
        held.forget_server();
        Ok(Some(held))
    }

    /// Restricts a directory that only Toolkeep uses to mode 0700. A directory with other content
    /// keeps its mode and is rejected if other users can write to it and could replace files.
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

    /// The id of the process that holds the lock, if known.
    pub(crate) fn holder(&self) -> Option<u32> {
        fs::read_to_string(self.path.join(LOCK)).ok()?.parse().ok()
    }

    /// Whether a process holds the lock now. Changes nothing.
    pub fn is_held(&self) -> bool {
        let lock = File::open(self.path.join(LOCK));
        lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Reads an initial key from its file.
    pub fn key(&self, key: FirstKey) -> Result<Secret, Failure> {
        let path = self.key_file(key);
        key_in(&path).map(Secret::new).map_err(|error| {
            let message = format!("the key `{}` cannot be read: {error}", path.display());
            let fix = format!("give a key by `--key` or TOOLKEEP_KEY; where it is lost, {RECOVER}");
            Failure::new(Exit::Refused, message).fix(fix)
        })
    }

    /// Reads the key that signs the record's checkpoints; `None` if there is none yet.
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

    /// Free bytes on its disk, or on that of the nearest existing parent.
    pub fn free_bytes(&self) -> Option<u64> {
        let system = self.path.ancestors().find_map(|path| rustix::fs::statvfs(path).ok())?;
        Some(system.f_bavail.saturating_mul(system.f_frsize))
    }

    /// Adds a notice to an error if this disk is full; errors on other disks stay unchanged.
    pub fn on_full_disk(&self, failure: Failure) -> Failure {
        let Some(free) = self.free_bytes().filter(|free| *free < FULL) else { return failure };
        let path = self.path.display();
        let message = format!("{failure}; the disk of `{path}` is full ({} KiB free)", free >> 10);
        let fix =
            format!("free space on the disk of `{path}`, or choose another one with `--data DIR`");
        Failure::new(failure.exit(), message).fix(fix)
    }
}

/// Reads a key from a file.
pub fn key_in(path: &Path) -> io::Result<String> {
    Ok(rooted_fs::files::read_text(path, KEY_FILE)?.trim().to_owned())
}

impl Held {
    /// The locked directory.
    pub fn data(&self) -> &DataDir {
        &self.data
    }

    /// Loads the key that signs the record's checkpoints, and creates it if it does not exist.
    ///
    /// # Errors
    /// Returns an error if the file is invalid or cannot be read or created. An existing key is
    /// never replaced.
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
