//! The store of keys and of the user directory, and the key ring that verifies against it.

mod change;
mod creation;
mod directory;
mod look;
mod purge;

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use identity::{Hand, KeyId, KeyRecord, KeyRing, NewKey, Principal};
use tokio::sync::watch;
use tool::store::Expect;
use tool::{Code, Json, Level, Problem, Secret, Store, StoreError, Wall};

use crate::error::ApiError;
pub use creation::refused;

/// Maximum number of active keys.
const KEYS: usize = 100_000;
/// Maximum number of personas.
const PERSONAS: usize = 1_000;
/// Maximum number of roles, of users and of organizations.
const BESIDE: usize = 10_000;
/// Maximum number of active keys that are delegated from one key.
const HANDED_ON: usize = 256;
/// Maximum number of ended keys that are removed during a delegation.
const FORGOTTEN: usize = 16;
/// How long the store may be unavailable before authentication fails.
pub const STALE: Duration = Duration::from_mins(1);

/// The keys and the directory records, persisted in the store and cached as a key ring.
#[derive(Debug)]
pub struct Keys {
    store: Arc<dyn Store>,
    ring: ArcSwap<KeyRing>,
    open: Option<Level>,
    guests: ArcSwapOption<BTreeSet<String>>,
    /// Numbers the reloads in the order in which they start.
    begun: AtomicU64,
    /// The latest change of the ring, for subscribers.
    read: watch::Sender<u64>,
    seen: Mutex<change::Seen>,
    /// Since when the store is unavailable, in milliseconds of the monotonic clock; 0 if it is
    /// available.
    failing: AtomicU64,
}

impl Keys {
    /// Loads the keys from the store. `open` is the level of callers without a credential.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    pub async fn read(
        store: Arc<dyn Store>,
        open: Option<Level>,
    ) -> Result<(Self, Vec<Problem>), StoreError> {
        let keys = Self {
            store,
            ring: ArcSwap::default(),
            open,
            guests: ArcSwapOption::empty(),
            begun: AtomicU64::new(1),
            read: watch::Sender::new(0),
            seen: Mutex::default(),
            failing: AtomicU64::new(0),
        };
        let problems = keys.reload().await?;
        Ok((keys, problems))
    }

    /// Restricts users without a persona to these sources, except for the owner
    /// (`default_guest_modules` of the module API); `None` means no restriction.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable; the ring then stays unchanged.
    pub async fn set_guests(&self, modules: Option<BTreeSet<String>>) -> Result<(), StoreError> {
        self.guests.store(modules.map(Arc::new));
        self.reload_directory().await.map(drop)
    }

    /// The underlying store.
    pub fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }

    /// The current key ring.
    pub fn ring(&self) -> Arc<KeyRing> {
        self.ring.load_full()
    }

    /// Creates a key and stores its record.
    ///
    /// # Errors
    /// Returns an error if the request is invalid or the store is unavailable.
    pub async fn create(&self, new: NewKey, now: Wall) -> Result<(Secret, KeyRecord), ApiError> {
        let (secret, record) = new
            .issue(random()?, now)
            .map_err(|fault| ApiError::new(Code::InvalidRequest, fault.to_string()))?;
        let ring = self.ring();
        // Ended keys do not count; they are searched only near the limit.
        if ring.len() >= KEYS && live(ring, now).await >= KEYS {
            let told =
                format!("there are {KEYS} keys already that are neither revoked nor expired");
            return Err(ApiError::new(Code::TooLarge, told)
                .fix("revoke keys that nobody uses: `toolkeep key list`"));
        }
        self.write(&record, Expect::Absent).await?;
        Ok((secret, record))
    }

    /// Delegates the key of `maker` with fewer permissions.
    ///
    /// # Errors
    /// Returns an error if its credential is not a key, it lacks what is requested, too many keys
    /// were delegated from it, or the store is unavailable.
    pub async fn delegate(
        &self,
        maker: &Principal,
        hand: Hand,
        now: Wall,
    ) -> Result<(Secret, KeyRecord), ApiError> {
        let ring = self.ring();
        let own = ring.get(maker.key()).ok_or_else(|| {
            ApiError::new(Code::Forbidden, "only a key of this program can be handed on")
                .fix("ask with a key of `toolkeep key create`")
        })?;
        if let Some(subject) = &hand.subject
            && *subject != own.subject
            && ring.directory().user(&own.org, subject).is_none()
            && maker.may(identity::Right::ActAs)
        {
            let told = format!("no user `{}`", subject.escape_debug());
            return Err(ApiError::new(Code::NotFound, told).fix("see `toolkeep user list`"));
        }
        self.make_room(maker, now).await?;
        let new = NewKey::delegated(Self::fresh_id()?, (own, maker), hand, now)
            .map_err(|fault| refused(&fault))?;
        self.create(new, now).await
    }

    /// Revokes a key and all keys that were delegated from it, effective immediately.
    ///
    /// # Errors
    /// Returns an error if the key does not exist or the store is unavailable.
    pub async fn revoke(&self, id: &str, now: Wall) -> Result<KeyRecord, ApiError> {
        self.change(id, |record| record.revoked = record.revoked.or(Some(now))).await
    }

    /// Consumes a single-use key atomically: of two concurrent attempts, one fails.
    ///
    /// # Errors
    /// Returns an error if the key does not exist, is consumed or revoked, or the store is
    /// unavailable.
    pub async fn use_up(&self, id: &str, now: Wall) -> Result<(), ApiError> {
        let mut first = false;
        let used = self.change(id, |record| {
            first = record.revoked.is_none();
            record.revoked = record.revoked.or(Some(now));
        });
        match used.await {
            Ok(_) if first => Ok(()),
            Ok(_) => Err(ApiError::new(Code::Forbidden, "the key is used up")),
            Err(error) if error.code() == Code::Conflict => {
                Err(ApiError::new(Code::Forbidden, "the key is used up"))
            }
            Err(error) => Err(error),
        }
    }

    /// Changes the level of a key after the level of its user changed from `former` to `new`.
    ///
    /// # Errors
    /// Returns an error if the key does not exist or the store is unavailable.
    pub async fn relevel(&self, id: &str, former: Level, new: Level) -> Result<(), ApiError> {
        let change = |record: &mut KeyRecord| {
            (record.level, record.level_fixed) = record.level_after(former, new);
        };
        self.change(id, change).await.map(drop)
    }

    /// Grants the owner key the rights that were introduced after it was created. Requires access
    /// to the data directory. Revoked, delegated or lowered keys stay unchanged; returns whether it
    /// changed.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    pub async fn complete(&self, presented: &str, now: Wall) -> Result<bool, ApiError> {
        let ring = self.ring();
        let Ok(owner) = ring.verify(Some(presented), now) else { return Ok(false) };
        let record = ring.get(owner.key()).filter(|record| {
            record.level == Level::Owner && !record.agent && record.delegations.is_empty()
        });
        let all: BTreeSet<_> = identity::Right::ALL.iter().copied().collect();
        let Some(record) = record.filter(|record| record.rights != all) else { return Ok(false) };
        self.change(record.id.as_str(), |record| record.rights = all).await?;
        Ok(true)
    }

    async fn change(
        &self,
        id: &str,
        change: impl FnOnce(&mut KeyRecord),
    ) -> Result<KeyRecord, ApiError> {
        let missing = || ApiError::new(Code::NotFound, format!("no key `{}`", id.escape_debug()));
        let key = self.ring().get(id).map(KeyRecord::store_key).ok_or_else(missing)?;
        let stored = self.store.get(&key).await?.ok_or_else(missing)?;
        // The current row, not the one that was read before.
        let mut record: KeyRecord = serde_json::from_slice(&stored.bytes).map_err(|_| missing())?;
        change(&mut record);
        self.write(&record, Expect::Version(stored.version)).await?;
        Ok(record)
    }

    async fn write(&self, record: &KeyRecord, expect: Expect) -> Result<(), ApiError> {
        let bytes = Json::of(record).bytes().clone();
        let version = self.store.put(&record.store_key(), expect, Some(bytes)).await?;
        self.changed(record.id.as_str(), version, Some(record.clone()));
        Ok(())
    }

    /// Generates a random key id.
    ///
    /// # Errors
    /// Returns an error if the operating system provides no random bytes.
    pub fn fresh_id() -> Result<KeyId, ApiError> {
        Ok(KeyId::random(random()?))
    }

    /// Returns a secret that is generated once and stored, such as the hash key of the records.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    pub async fn once(&self, name: &str) -> Result<Secret, ApiError> {
        let fresh = tool::Digest(random()?).to_string();
        self.once_made(name, fresh).await
    }

    /// Returns a stored secret, or stores `fresh` if there is none yet.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    pub async fn once_made(&self, name: &str, fresh: String) -> Result<Secret, ApiError> {
        let put = self.store.put(name, Expect::Absent, Some(Bytes::from(fresh))).await;
        match put {
            Ok(_) | Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let kept = self.store.get(name).await?;
        let text = kept.and_then(|kept| String::from_utf8(kept.bytes.to_vec()).ok());
        text.map(Secret::new).ok_or_else(|| {
            ApiError::new(Code::StoreUnavailable, format!("`{name}` cannot be read"))
        })
    }
}

/// Node certificates are valid for as long as the keys that they were issued with.
impl tool::node::KeyState for Keys {
    fn has_ended(&self, key: &str, now: Wall) -> bool {
        self.ring().over(key, now).is_some()
    }
}

/// Pending calls resume with the current permissions of their caller.
impl gateway::Holders for Keys {
    fn holder(&self, caller: &tool::Caller, now: Wall) -> gateway::Holder {
        match self.ring().standing(caller, now) {
            Some(Some(principal)) => gateway::Holder::Holds(principal.clone()),
            Some(None) => gateway::Holder::Gone,
            None => gateway::Holder::Elsewhere,
        }
    }
}

/// Counts the active keys by scanning all of them.
async fn live(ring: Arc<KeyRing>, now: Wall) -> usize {
    let counted = tokio::task::spawn_blocking(move || ring.live(now)).await;
    // This only happens during shutdown.
    counted.unwrap_or(KEYS)
}

fn random<const N: usize>() -> Result<[u8; N], ApiError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| ApiError::new(Code::Internal, format!("no random bytes: {error}")))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
