//! The data directory: who holds it, where its server listens, and the keys of the first start.

mod server_file;

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use guard::private_file;
use identity::{KeyId, NewKey};
use ledger::signed::RecordKey;
use server::{ApiError, Keys};
use store::MacFile;
use tool::store::Expect;
use tool::{Secret, Wall};

use super::failure::{Exit, Failure};

pub(super) use server_file::{Server, named};

/// What the store keeps once both keys were made.
const FIRST_START: &str = "installation/first_start";
/// Locked by the process that holds the directory.
const LOCK: &str = "server.lock";
/// The folder of language models.
pub(crate) const MODELS: &str = "models";
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

/// The two keys of an installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstKey {
    /// A person's, with every right.
    Owner,
    /// For the owner's agent.
    Agent,
}

impl FirstKey {
    const fn file(self) -> &'static str {
        match self {
            Self::Owner => "owner.key",
            Self::Agent => "agent.key",
        }
    }

    fn with(self, id: KeyId) -> NewKey {
        match self {
            Self::Owner => NewKey::owner(id),
            Self::Agent => NewKey::agent(id),
        }
    }
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
    pub(super) fn holder(&self) -> Option<u32> {
        fs::read_to_string(self.path.join(LOCK)).ok()?.parse().ok()
    }

    /// Whether a process holds it now. Changes nothing.
    pub(super) fn is_held(&self) -> bool {
        let lock = File::open(self.path.join(LOCK));
        lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// The key in a file.
    pub(super) fn key(&self, key: FirstKey) -> Result<Secret, Failure> {
        let path = self.key_file(key);
        key_in(&path).map(Secret::new).map_err(|error| {
            let message = format!("the key `{}` cannot be read: {error}", path.display());
            Failure::new(Exit::Refused, message)
                .fix("give a key by `--key` or TOOLKEEP_KEY, or have it made: `toolkeep serve --make-keys`")
        })
    }

    /// The key that signs the record's checkpoints; `None` where there is none yet.
    pub(super) fn record_key_there(&self) -> Result<Option<RecordKey>, Failure> {
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

    pub(super) fn failed(&self, what: &str, error: &io::Error) -> Failure {
        let message = format!("the data directory `{}` {what}: {error}", self.path.display());
        Failure::new(Exit::NoServer, message).fix("choose another one with `--data DIR`")
    }
}

/// The key that a file holds.
pub(super) fn key_in(path: &Path) -> io::Result<String> {
    Ok(guard::files::read_text(path, KEY_FILE)?.trim().to_owned())
}

impl Held {
    /// The directory.
    pub fn data(&self) -> &DataDir {
        &self.data
    }

    /// Makes `owner.key` and `agent.key` on the first start, or where `anew` asks for those that are
    /// missing. A file that is there is never touched. Returns those that were made.
    ///
    /// # Errors
    /// Where the store or the directory cannot be written, or there is no randomness.
    pub async fn first_keys(
        &self,
        keys: &Keys,
        now: Wall,
        anew: bool,
    ) -> Result<Vec<FirstKey>, Failure> {
        let store = keys.store();
        let told = |error: tool::StoreError| Failure::new(Exit::NoServer, error.to_string());
        // The mark is set last: a start that broke off is a first start still.
        let done = store.get(FIRST_START).await.map_err(told)?.is_some();
        self.complete_owner(keys, now).await?;
        if done && !anew {
            return Ok(Vec::new());
        }
        let mut made = Vec::new();
        for key in [FirstKey::Owner, FirstKey::Agent] {
            if !self.data.key_file(key).exists() {
                self.make(key, keys, now).await?;
                made.push(key);
            }
        }
        if !done {
            let mark = Bytes::from(now.to_string());
            store.put(FIRST_START, Expect::Absent, Some(mark)).await.map_err(told)?;
        }
        Ok(made)
    }

    /// A key that an older program made has every right of this one.
    async fn complete_owner(&self, keys: &Keys, now: Wall) -> Result<(), Failure> {
        // A file that cannot be read is told by whoever needs it.
        let Ok(presented) = self.data.key(FirstKey::Owner) else { return Ok(()) };
        let told = |error: ApiError| Failure::new(Exit::NoServer, error.message());
        if keys.complete(presented.open(), now).await.map_err(told)? {
            tracing::info!("the owner's key has the rights that came since it was made");
        }
        Ok(())
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

    async fn make(&self, key: FirstKey, keys: &Keys, now: Wall) -> Result<(), Failure> {
        let told = |error: ApiError| Failure::new(Exit::NoServer, error.message());
        let new = key.with(Keys::fresh_id().map_err(told)?);
        let (secret, _) = keys.create(new, now).await.map_err(told)?;
        let text = format!("{}\n", secret.open());
        let path = self.data.key_file(key);
        private_file::create_with(&path, text.as_bytes()).map_err(|error| {
            let message = format!("the key `{}` cannot be written: {error}", path.display());
            Failure::new(Exit::NoServer, message)
        })
    }
}

#[cfg(test)]
mod tests;
