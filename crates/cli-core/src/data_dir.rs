//! The data directory: its lock, the descriptor of its server, and the initial keys.

mod key_files;
mod server_descriptor;

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use ledger::signed_checkpoint::CheckpointSigningKey;
use rooted_fs::private_file;
use tool::Secret;

use super::command_error::{CommandError, ExitStatus};
pub use key_files::RECOVER;
pub use key_files::{FirstKey, KeyChanges, KeyState};

pub use server_descriptor::{ServerDescriptor, describe_configuration};

/// The lock file of the process that uses the directory.
const LOCK_FILE: &str = "server.lock";
/// The directory of language models.
pub const MODELS_DIR: &str = "models";
/// Free bytes below which a disk counts as full: a store cannot be opened there.
const FULL_DISK_BYTES: u64 = 1 << 20;
/// Maximum size of a key file, in bytes.
const MAX_KEY_FILE_BYTES: u64 = 1024;

/// The path of a data directory, whether locked or not.
#[derive(Debug, Clone)]
pub struct DataDir {
    path: PathBuf,
}

/// A data directory locked by this process; no other process writes to it.
#[derive(Debug)]
pub struct DataDirLock {
    dir: DataDir,
    /// The file that is locked as long as it is open.
    _lock: File,
}

impl DataDir {
    /// The data directory at `path`, which need not exist.
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the store file.
    pub fn store_file(&self) -> PathBuf {
        self.path.join("store.db")
    }

    /// The path of the record's directory.
    pub fn records_dir(&self) -> PathBuf {
        self.path.join("records")
    }

    /// The file of the key that signs the record's checkpoints; the key that seals pins is derived
    /// from it.
    pub fn record_key_file(&self) -> PathBuf {
        self.path.join("record.key")
    }

    /// The file with the MACs of the store's rows, which is separate from the store.
    pub fn row_macs(&self) -> PathBuf {
        self.path.join("store.macs")
    }

    /// The directory of the tools that read and write files.
    pub fn work_dir(&self) -> PathBuf {
        self.path.join("work")
    }

    /// The path of an initial key's file.
    pub fn key_file(&self, key: FirstKey) -> PathBuf {
        self.path.join(key.file())
    }

    /// The directory where language models are installed.
    pub fn models_dir(&self) -> PathBuf {
        self.path.join(MODELS_DIR)
    }

    /// Creates the directory if it does not exist.
    ///
    /// # Errors
    /// Returns an error if it cannot be created or made private.
    pub fn create_dir(&self) -> Result<(), CommandError> {
        let make = DirBuilder::new().recursive(true).mode(0o700).create(&self.path);
        make.map_err(|error| self.io_error("cannot be created", &error))?;
        self.restrict_permissions()
    }

    /// Locks the directory and creates it if necessary; `None` if another process holds it.
    ///
    /// # Errors
    /// Returns an error if it cannot be created or opened.
    pub fn try_lock(&self) -> Result<Option<DataDirLock>, CommandError> {
        self.create_dir()?;
        let lock = self.path.join(LOCK_FILE);
        let mut options = OpenOptions::new();
        let lock = options.create(true).truncate(false).write(true).mode(0o600).open(lock);
        let mut lock = lock.map_err(|error| self.io_error("cannot be locked", &error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => {
                return Err(self.io_error("cannot be locked", &error));
            }
        }
        // Names the holder in the message of a waiting process. If it cannot be written, the
        // message names none.
        drop(lock.set_len(0).and_then(|()| write!(lock, "{}", std::process::id())));
        let held = DataDirLock { dir: self.clone(), _lock: lock };
        // A killed server's descriptor would send others to a stale address.
        held.unpublish_server();
        Ok(Some(held))
    }

    /// Restricts a directory that only Toolkeep uses to mode 0700. A directory with other content
    /// keeps its mode and is rejected if other users can write to it and could replace files.
    fn restrict_permissions(&self) -> Result<(), CommandError> {
        let read = |error: io::Error| self.io_error("cannot be read", &error);
        let mode = fs::metadata(&self.path).map_err(read)?.permissions().mode();
        let (seen, written) = (mode & 0o077, mode & 0o022);
        if seen == 0 {
            return Ok(());
        }
        let ours = self.path.join(LOCK_FILE).exists()
            || fs::read_dir(&self.path).map_err(read)?.next().is_none();
        if ours {
            return fs::set_permissions(&self.path, fs::Permissions::from_mode(0o700)).map_err(
                |error| {
                    self.io_error(
                        "is readable by other users and cannot be made \
                                              private",
                        &error,
                    )
                },
            );
        }
        if written == 0 {
            return Ok(());
        }
        let path = self.path.display();
        let message = format!("`{path}` contains other files and is writable by other users");
        Err(CommandError::new(ExitStatus::ServerUnavailable, message)
            .with_help("choose a separate directory with `--data DIR`"))
    }

    /// The id of the process that holds the lock, if known.
    pub(crate) fn holder_pid(&self) -> Option<u32> {
        fs::read_to_string(self.path.join(LOCK_FILE)).ok()?.parse().ok()
    }

    /// Whether a process holds the lock now. Changes nothing.
    pub fn is_locked(&self) -> bool {
        let lock = File::open(self.path.join(LOCK_FILE));
        lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Reads an initial key from its file.
    pub fn read_key(&self, key: FirstKey) -> Result<Secret, CommandError> {
        let path = self.key_file(key);
        read_key_file(&path).map(Secret::new).map_err(|error| {
            let message = format!("cannot read the key `{}`: {error}", path.display());
            let fix = format!(
                "pass a key with `--key` or TOOLKEEP_KEY; if the key is lost, \
                               {RECOVER}"
            );
            CommandError::new(ExitStatus::Refused, message).with_help(fix)
        })
    }

    /// Reads the key that signs the record's checkpoints; `None` if there is none yet.
    pub fn read_record_key(&self) -> Result<Option<CheckpointSigningKey>, CommandError> {
        let path = self.record_key_file();
        if !path.exists() {
            return Ok(None);
        }
        let read = read_key_file(&path);
        let text =
            read.map_err(|error| self.record_key_error(&format!("cannot be read: {error}")))?;
        let key = CheckpointSigningKey::from_hex(&text);
        key.map(Some).map_err(|error| self.record_key_error(&format!("is invalid: {error}")))
    }

    fn record_key_error(&self, what: &str) -> CommandError {
        let message =
            format!("the record's signing key `{}` {what}", self.record_key_file().display());
        CommandError::new(ExitStatus::ServerUnavailable, message).with_help(
            "restore the file from a backup, or move it away: a new key then signs checkpoints, \
             and the store's rows are accepted as they are, except pins, which must be approved \
             again",
        )
    }

    pub(crate) fn io_error(&self, problem: &str, error: &io::Error) -> CommandError {
        let message = format!("the data directory `{}` {problem}: {error}", self.path.display());
        let failure = CommandError::new(ExitStatus::ServerUnavailable, message);
        self.with_full_disk_notice(failure.with_help("choose another directory with `--data DIR`"))
    }

    /// Free bytes on its disk, or on that of the nearest existing parent.
    pub fn free_bytes(&self) -> Option<u64> {
        let system = self.path.ancestors().find_map(|path| rustix::fs::statvfs(path).ok())?;
        Some(system.f_bavail.saturating_mul(system.f_frsize))
    }

    /// Adds a notice to an error if this disk is full; errors on other disks stay unchanged.
    pub fn with_full_disk_notice(&self, failure: CommandError) -> CommandError {
        let Some(free) = self.free_bytes().filter(|free| *free < FULL_DISK_BYTES) else {
            return failure;
        };
        let path = self.path.display();
        let message = format!("{failure}; the disk of `{path}` is full ({} KiB free)", free >> 10);
        let fix =
            format!("free disk space at `{path}`, or choose another directory with `--data DIR`");
        CommandError::new(failure.exit_status(), message).with_help(fix)
    }
}

/// Reads a key from a file.
pub fn read_key_file(path: &Path) -> io::Result<String> {
    Ok(rooted_fs::regular_file::read_text(path, MAX_KEY_FILE_BYTES)?.trim().to_owned())
}

impl DataDirLock {
    /// Returns the locked data directory.
    pub fn dir(&self) -> &DataDir {
        &self.dir
    }

    /// Loads the key that signs the record's checkpoints, and creates it if it does not exist.
    ///
    /// # Errors
    /// Returns an error if the file is invalid or cannot be read or created. An existing key is
    /// never replaced.
    pub fn load_or_create_record_key(&self) -> Result<CheckpointSigningKey, CommandError> {
        if let Some(key) = self.dir.read_record_key()? {
            return Ok(key);
        }
        let fresh = CheckpointSigningKey::generate()
            .map_err(|error| self.dir.record_key_error(&error.to_string()))?;
        let text = format!("{}\n", fresh.to_hex().expose());
        private_file::create_atomically(&self.dir.record_key_file(), text.as_bytes())
            .map_err(|error| self.dir.record_key_error(&format!("cannot be written: {error}")))?;
        Ok(fresh)
    }
}

#[cfg(test)]
mod tests;
