//! The key files of an installation: created on the first start, checked, and recovered when lost.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use bytes::Bytes;
use identity::{KeyId, KeyRecord, KeyRing, NewKey};
use rooted_fs::private_file;
use server_core::{ApiError, Keys};
use tool::ledger::Event;
use tool::store::Expect;
use tool::{Org, Wall};

use super::{DataDir, Held};
use crate::failure::{Exit, Failure};

/// The store row that marks the first start as complete.
const FIRST_START: &str = "installation/first_start";
/// The advice for recovering a valid key.
pub const RECOVER: &str = "stop the server and run `toolkeep key recover` on this machine";

/// The two initial keys of an installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstKey {
    /// The owner's key, with every right.
    Owner,
    /// The key of the owner's agent.
    Agent,
}

impl FirstKey {
    /// Both initial keys, in order.
    pub const ALL: [Self; 2] = [Self::Owner, Self::Agent];

    /// The file name of the key.
    pub(super) const fn file(self) -> &'static str {
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

/// The state of a key file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// The file contains a valid key.
    Valid,
    /// The file does not exist or cannot be read.
    Missing,
    /// The file contains a key that is unknown, expired or revoked.
    Invalid,
}

/// The changes made to the keys of an installation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyChanges {
    /// The keys that were created.
    pub made: Vec<FirstKey>,
    /// Ids of owner keys that were revoked because another one replaced them.
    pub revoked: Vec<String>,
    /// Files that were renamed because their key is not valid.
    pub set_aside: Vec<PathBuf>,
}

/// The record event for an owner key that was revoked because another one replaced it.
pub fn revocation(at: Wall, key: &str) -> Event {
    Event {
        at,
        org: Org::default(),
        event: "key_revoked".to_owned(),
        by: None,
        source: None,
        tool: None,
        before: None,
        after: None,
        note: Some(format!("the owner key {key}: another took its place")),
    }
}

fn failed(error: &ApiError) -> Failure {
    Failure::new(Exit::NoServer, error.message())
}

impl DataDir {
    /// Checks whether the file of a key contains a valid one.
    pub fn key_state(&self, ring: &KeyRing, key: FirstKey, now: Wall) -> KeyState {
        match self.key(key) {
            Err(_) => KeyState::Missing,
            Ok(presented) if ring.verify(Some(presented.open()), now).is_ok() => KeyState::Valid,
            Ok(_) => KeyState::Invalid,
        }
    }

    /// Key files that other users can read, with their modes.
    pub fn open_key_files(&self) -> Vec<(PathBuf, u32)> {
        let files = FirstKey::ALL.map(|key| self.key_file(key)).into_iter();
        let mode = |path: PathBuf| {
            let mode = fs::metadata(&path).ok()?.permissions().mode() & 0o777;
            let others = mode & 0o077;
            (others != 0).then_some((path, mode))
        };
        files.chain([self.record_key()]).filter_map(mode).collect()
    }
}

impl Held {
    /// Creates `owner.key` and `agent.key` on the first start, or missing ones if `anew` is set. An
    /// existing file is never changed. A new owner key replaces the one whose file is missing,
    /// which is revoked.
    ///
    /// # Errors
    /// Returns an error if the store or the directory cannot be written, or without randomness.
    pub async fn first_keys(
        &self,
        keys: &Keys,
        now: Wall,
        anew: bool,
    ) -> Result<KeyChanges, Failure> {
        let store = keys.store();
        let told = |error: tool::StoreError| Failure::new(Exit::NoServer, error.to_string());
        // The marker is written last: an interrupted first start is repeated.
        let done = store.get(FIRST_START).await.map_err(told)?.is_some();
        self.complete_owner(keys, now).await?;
        let mut changes = KeyChanges::default();
        if done && !anew {
            return Ok(changes);
        }
        for key in FirstKey::ALL {
            if !self.data.key_file(key).exists() {
                self.make(key, keys, now).await?;
                changes.made.push(key);
            }
        }
        if changes.made.contains(&FirstKey::Owner) {
            changes.revoked = self.revoke_replaced(keys, now).await?;
        }
        if !done {
            let mark = Bytes::from(now.to_string());
            store.put(FIRST_START, Expect::Absent, Some(mark)).await.map_err(told)?;
        }
        Ok(changes)
    }

    /// Ensures one valid owner key and one valid agent key with their files. A file with an invalid
    /// key is renamed, and every other owner key of a first start is revoked. The caller holds the
    /// data directory and could change the store itself.
    ///
    /// # Errors
    /// As [`Held::first_keys`].
    pub async fn recover_keys(&self, keys: &Keys, now: Wall) -> Result<KeyChanges, Failure> {
        let mut set_aside = Vec::new();
        for key in FirstKey::ALL {
            if self.data.key_state(&keys.ring(), key, now) == KeyState::Invalid {
                let (path, aside) = (self.data.key_file(key), self.invalid_file(key));
                fs::rename(&path, &aside).map_err(|error| {
                    let message =
                        format!("the key `{}` cannot be put aside: {error}", path.display());
                    Failure::new(Exit::NoServer, message)
                })?;
                set_aside.push(aside);
            }
        }
        let mut changes = self.first_keys(keys, now, true).await?;
        changes.set_aside = set_aside;
        changes.revoked.extend(self.revoke_replaced(keys, now).await?);
        Ok(changes)
    }

    fn invalid_file(&self, key: FirstKey) -> PathBuf {
        self.data.path.join(format!("{}.invalid", key.file()))
    }

    /// Revokes the initial owner keys except the one in the file: they have the same rights without
    /// expiry, and their holders are unknown.
    async fn revoke_replaced(&self, keys: &Keys, now: Wall) -> Result<Vec<String>, Failure> {
        let ring = keys.ring();
        let presented = self.data.key(FirstKey::Owner)?;
        let Ok(owner) = ring.verify(Some(presented.open()), now) else { return Ok(Vec::new()) };
        let replaced = |record: &&KeyRecord| {
            let made = NewKey::owner(record.id.clone());
            record.id.as_str() != owner.key()
                && record.label == made.label
                && (record.org == made.org && record.subject == made.subject)
                && (record.level == made.level && record.agent == made.agent)
                && record.delegations.is_empty()
                && ring.over(record.id.as_str(), now).is_none()
        };
        let records = ring.records();
        let ids: Vec<_> =
            records.into_iter().filter(replaced).map(|record| record.id.to_string()).collect();
        for id in &ids {
            keys.revoke(id, now).await.map_err(|error| failed(&error))?;
            tracing::warn!(key = id, "the owner key whose file is missing is revoked");
        }
        Ok(ids)
    }

    /// Adds the rights that newer versions introduced to an older owner key.
    async fn complete_owner(&self, keys: &Keys, now: Wall) -> Result<(), Failure> {
        // A file that cannot be read is reported where it is needed.
        let Ok(presented) = self.data.key(FirstKey::Owner) else { return Ok(()) };
        if keys.complete(presented.open(), now).await.map_err(|error| failed(&error))? {
            tracing::info!("the owner's key has the rights that came since it was made");
        }
        Ok(())
    }

    async fn make(&self, key: FirstKey, keys: &Keys, now: Wall) -> Result<(), Failure> {
        let new = key.with(Keys::fresh_id().map_err(|error| failed(&error))?);
        let (secret, _) = keys.create(new, now).await.map_err(|error| failed(&error))?;
        let text = format!("{}\n", secret.open());
        let path = self.data.key_file(key);
        private_file::create_with(&path, text.as_bytes()).map_err(|error| {
            let message = format!("the key `{}` cannot be written: {error}", path.display());
            Failure::new(Exit::NoServer, message)
        })
    }
}
