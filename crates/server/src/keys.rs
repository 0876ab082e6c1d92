//! The keys in the store, and the ring that is verified against.

use std::collections::BTreeSet;
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use identity::{KeyId, KeyRecord, KeyRing, NewKey, Persona, Personas};
use tool::store::Expect;
use tool::{Code, Json, Level, Problem, Secret, Store, StoreError, Wall};

use crate::error::ApiError;

/// Keys read at once; an installation with more needs another store.
const KEYS: usize = 10_000;
/// Personas read at once.
const PERSONAS: usize = 1_000;

/// Keys and personas, kept in the store and held as a ring.
#[derive(Debug)]
pub struct Keys {
    store: Arc<dyn Store>,
    ring: ArcSwap<KeyRing>,
    open: Option<Level>,
    guests: ArcSwapOption<BTreeSet<String>>,
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
        let (ring, guests) = (ArcSwap::default(), ArcSwapOption::empty());
        let keys = Self { store, ring, open, guests };
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
        self.reload().await.map(drop)
    }

    /// Reads them again.
    ///
    /// # Errors
    /// Where the store does not answer; the ring then stays as it is.
    pub async fn reload(&self) -> Result<Vec<Problem>, StoreError> {
        let stored = self.store.scan(Personas::STORE_PREFIX, None, PERSONAS).await?;
        let pairs = stored.iter().map(|one| (one.key.as_str(), one.bytes.as_ref()));
        let (personas, mut problems) = Personas::read(pairs);
        let default = self.store.get(Personas::STORE_DEFAULT).await?;
        let default = default.map(|kept| String::from_utf8_lossy(&kept.bytes).into_owned());
        let guests = self.guests.load_full().map(|guests| BTreeSet::clone(&guests));
        let personas = personas.with_default(default).guests(guests);
        let stored = self.store.scan(KeyRecord::STORE_PREFIX, None, KEYS).await?;
        let pairs = stored.iter().map(|one| (one.key.as_str(), one.bytes.as_ref()));
        let (ring, of_keys) = KeyRing::read(pairs, personas);
        problems.extend(of_keys);
        let ring = match self.open {
            Some(level) => ring.open(level),
            None => ring,
        };
        self.ring.store(Arc::new(ring));
        Ok(problems)
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
        self.write(&record, Expect::Absent).await?;
        Ok((secret, record))
    }

    /// Revokes a key; it does not hold from here on.
    ///
    /// # Errors
    /// Where there is no such key, or the store does not answer.
    pub async fn revoke(&self, id: &str, now: Wall) -> Result<KeyRecord, ApiError> {
        let missing = || ApiError::new(Code::NotFound, format!("no key `{}`", id.escape_debug()));
        let mut record = self.ring().get(id).cloned().ok_or_else(missing)?;
        let stored = self.store.get(&record.store_key()).await?.ok_or_else(missing)?;
        record.revoked = record.revoked.or(Some(now));
        self.write(&record, Expect::Version(stored.version)).await?;
        Ok(record)
    }

    /// Gives a key another level.
    ///
    /// # Errors
    /// Where there is no such key, or the store does not answer.
    pub async fn set_level(&self, id: &str, level: Level) -> Result<(), ApiError> {
        let missing = || ApiError::new(Code::NotFound, format!("no key `{}`", id.escape_debug()));
        let mut record = self.ring().get(id).cloned().ok_or_else(missing)?;
        let stored = self.store.get(&record.store_key()).await?.ok_or_else(missing)?;
        record.level = level;
        self.write(&record, Expect::Version(stored.version)).await
    }

    /// Keeps a persona. `new`: there must be none of its name yet; otherwise there must be one.
    ///
    /// # Errors
    /// Where that does not hold, there are too many, or the store does not answer.
    pub async fn keep_persona(&self, persona: &Persona, new: bool) -> Result<(), ApiError> {
        let key = Personas::store_key(&persona.name);
        let name = persona.name.escape_debug();
        let there = self.store.get(&key).await?;
        let expect = match there {
            Some(_) if new => {
                let told = format!("there is a persona `{name}` already");
                return Err(ApiError::new(Code::Conflict, told).fix("give it another name"));
            }
            None if !new => {
                return Err(ApiError::new(Code::NotFound, format!("no persona `{name}`")));
            }
            Some(there) => Expect::Version(there.version),
            None if self.ring().personas().all().count() >= PERSONAS => {
                let told = format!("there are {PERSONAS} personas already");
                return Err(ApiError::new(Code::TooLarge, told));
            }
            None => Expect::Absent,
        };
        self.store.put(&key, expect, Some(Json::of(persona).bytes().clone())).await?;
        self.reload().await?;
        Ok(())
    }

    /// Makes a persona that of all who have none.
    ///
    /// # Errors
    /// Where the store does not answer.
    pub async fn set_default_persona(&self, name: &str) -> Result<(), ApiError> {
        let there = self.store.get(Personas::STORE_DEFAULT).await?;
        let expect = there.map_or(Expect::Absent, |there| Expect::Version(there.version));
        let name = Bytes::copy_from_slice(name.as_bytes());
        self.store.put(Personas::STORE_DEFAULT, expect, Some(name)).await?;
        self.reload().await?;
        Ok(())
    }

    async fn write(&self, record: &KeyRecord, expect: Expect) -> Result<(), ApiError> {
        let bytes = Json::of(record).bytes().clone();
        self.store.put(&record.store_key(), expect, Some(bytes)).await?;
        self.reload().await?;
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

fn random<const N: usize>() -> Result<[u8; N], ApiError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| ApiError::new(Code::Internal, format!("no random bytes: {error}")))?;
    Ok(bytes)
}
