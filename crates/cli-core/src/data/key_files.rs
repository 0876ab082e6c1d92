//! The key files of an installation: made on the first start, checked, and recovered when they are lost.

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

/// What the store keeps once both keys were made.
const FIRST_START: &str = "installation/first_start";
/// How to get a valid key again.
pub const RECOVER: &str = "stop the server and run `toolkeep key recover` on this machine";

/// The two keys of an installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstKey {
    /// A person's, with every right.
    Owner,
    /// For the owner's agent.
    Agent,
}

impl FirstKey {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Owner, Self::Agent];

    /// The name of its file.
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

/// How the file of a key stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// It holds a valid key.
    Valid,
    /// It is not there, or cannot be read.
    Missing,
    /// It holds a key that is unknown, expired or revoked.
    Invalid,
}

/// What was done about the keys of an installation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyChanges {
    /// Those that were made.
    pub made: Vec<FirstKey>,
    /// Ids of the owner keys that were revoked, because another one took their place.
    pub revoked: Vec<String>,
    /// Files that were put aside, because their key is not valid.
    pub set_aside: Vec<PathBuf>,
}

/// The event of an owner key that is revoked because another one took its place.
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
    /// Whether the file of a key holds a valid one.
    pub fn key_state(&self, ring: &KeyRing, key: FirstKey, now: Wall) -> KeyState {
        match self.key(key) {
            Err(_) => KeyState::Missing,
            Ok(presented) if ring.verify(Some(presented.open()), now).is_ok() => KeyState::Valid,
            Ok(_) => KeyState::Invalid,
        }
    }

    /// Files of keys that others on this machine can read, each with its mode.
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
    /// Makes `owner.key` and `agent.key` on the first start, or where `anew` asks for those that are
    /// missing. A file that is there is never touched. A new owner key takes the place of the one whose file
    /// is missing, which is revoked.
    ///
    /// # Errors
    /// Where the store or the directory cannot be written, or there is no randomness.
    pub async fn first_keys(
        &self,
        keys: &Keys,
        now: Wall,
        anew: bool,
    ) -> Result<KeyChanges, Failure> {
        let store = keys.store();
        let told = |error: tool::StoreError| Failure::new(Exit::NoServer, error.to_string());
        // The mark is set last: a start that broke off is a first start still.
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

    /// Leaves the installation with one owner key and one agent key that are valid and have their files.
    /// A file whose key is not valid is put aside, and every other owner key of a first start is revoked.
    /// Whoever calls this holds the data directory, and could change the store itself.
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

    /// Revokes the owner keys of first starts but the one in the file: they have the same rights for ever,
    /// and nobody can tell who holds them.
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

    /// A key that an older program made has every right of this one.
    async fn complete_owner(&self, keys: &Keys, now: Wall) -> Result<(), Failure> {
        // A file that cannot be read is told by whoever needs it.
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
