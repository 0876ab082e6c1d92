//! The keys in the store with all that stands beside them, and the ring that is verified against.

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

/// Keys that hold; an installation with more needs another store.
const KEYS: usize = 100_000;
/// Personas.
const PERSONAS: usize = 1_000;
/// Roles, users, organisations, of each.
const BESIDE: usize = 10_000;
/// Keys that hold, of those that came of one.
const HANDED_ON: usize = 256;
/// Keys that ended and are removed when one is handed on.
const FORGOTTEN: usize = 16;
/// How long the store may fail before nobody is let in any more.
pub const STALE: Duration = Duration::from_mins(1);

/// Keys and all that stands beside them, kept in the store and held as a ring.
#[derive(Debug)]
pub struct Keys {
    store: Arc<dyn Store>,
    ring: ArcSwap<KeyRing>,
    open: Option<Level>,
    guests: ArcSwapOption<BTreeSet<String>>,
    /// Numbers the readings as they begin.
    begun: AtomicU64,
    /// The latest change of the ring, told to who listens.
    read: watch::Sender<u64>,
    seen: Mutex<change::Seen>,
    /// Since when the store fails, in milliseconds of the clock; 0 where it does not.
    failing: AtomicU64,
}

impl Keys {
    /// Reads the keys. `open` lets callers without a credential in at that level.
    ///
    /// # Errors
    /// Where the store does not answer.
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

    /// From here on, those who have no persona may use these sources alone, the owner apart (spec 0's
    /// `default_guest_modules`); `None` is no limit.
    ///
    /// # Errors
    /// Where the store does not answer; the ring then stays as it is.
    pub async fn set_guests(&self, modules: Option<BTreeSet<String>>) -> Result<(), StoreError> {
        self.guests.store(modules.map(Arc::new));
        self.reload_directory().await.map(drop)
    }

    /// Where they are kept.
    pub fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }

    /// The ring now.
    pub fn ring(&self) -> Arc<KeyRing> {
        self.ring.load_full()
    }

    /// Makes a key and keeps its record.
    ///
    /// # Errors
    /// Where it cannot be made as asked, or the store does not answer.
    pub async fn create(&self, new: NewKey, now: Wall) -> Result<(Secret, KeyRecord), ApiError> {
        let (secret, record) = new
            .issue(random()?, now)
            .map_err(|fault| ApiError::new(Code::InvalidRequest, fault.to_string()))?;
        let ring = self.ring();
        // Those that ended count no more, and are looked for only where it matters.
        if ring.len() >= KEYS && live(ring, now).await >= KEYS {
            let told =
                format!("there are {KEYS} keys already that are neither revoked nor expired");
            return Err(ApiError::new(Code::TooLarge, told)
                .fix("revoke keys that nobody uses: `toolkeep key list`"));
        }
        self.write(&record, Expect::Absent).await?;
        Ok((secret, record))
    }

    /// Hands the key of `maker` on, narrower.
    ///
    /// # Errors
    /// Where its credential is no key, it has not what is asked for, too many keys came of it already, or
    /// the store does not answer.
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

    /// Revokes a key; it does not hold from here on, nor does any that came of it.
    ///
    /// # Errors
    /// Where there is no such key, or the store does not answer.
    pub async fn revoke(&self, id: &str, now: Wall) -> Result<KeyRecord, ApiError> {
        self.change(id, |record| record.revoked = record.revoked.or(Some(now))).await
    }

    /// Uses a key up that is good for one thing, once: of two who try, one is refused.
    ///
    /// # Errors
    /// Where there is no such key, it is used up or revoked, or the store does not answer.
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

    /// Gives a key the level that it has after its user's goes from `former` to `new`.
    ///
    /// # Errors
    /// Where there is no such key, or the store does not answer.
    pub async fn relevel(&self, id: &str, former: Level, new: Level) -> Result<(), ApiError> {
        let change = |record: &mut KeyRecord| {
            (record.level, record.level_fixed) = record.level_after(former, new);
        };
        self.change(id, change).await.map(drop)
    }

    /// Gives the installation's owner the rights that came since its key was made. Only for who holds the
    /// data directory. A key that was revoked, handed on or lowered stays as it is; whether it was changed.
    ///
    /// # Errors
    /// Where the store does not answer.
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
        // What stands there now, not what was read before.
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

    /// A fresh id.
    ///
    /// # Errors
    /// Where the operating system gives no random bytes.
    pub fn fresh_id() -> Result<KeyId, ApiError> {
        Ok(KeyId::random(random()?))
    }

    /// One value that is made once and kept, such as the key of the records' hashes.
    ///
    /// # Errors
    /// Where the store does not answer.
    pub async fn once(&self, name: &str) -> Result<Secret, ApiError> {
        let fresh = tool::Digest(random()?).to_string();
        self.once_made(name, fresh).await
    }

    /// The same with a value that the caller has made, where there is none yet.
    ///
    /// # Errors
    /// Where the store does not answer.
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

/// Certificates of nodes count for as long as the keys that they were issued with.
impl tool::node::KeyState for Keys {
    fn has_ended(&self, key: &str, now: Wall) -> bool {
        self.ring().over(key, now).is_some()
    }
}

/// Held calls go on for whoever their caller is when they do.
impl gateway::Holders for Keys {
    fn holder(&self, caller: &tool::Caller, now: Wall) -> gateway::Holder {
        match self.ring().standing(caller, now) {
            Some(Some(principal)) => gateway::Holder::Holds(principal.clone()),
            Some(None) => gateway::Holder::Gone,
            None => gateway::Holder::Elsewhere,
        }
    }
}

/// How many keys hold. Looks at all of them.
async fn live(ring: Arc<KeyRing>, now: Wall) -> usize {
    let counted = tokio::task::spawn_blocking(move || ring.live(now)).await;
    // Only where the process ends.
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
