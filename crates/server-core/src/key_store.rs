//! The store of keys and of the user directory, and the key ring that verifies against it.

mod creation;
mod directory_writes;
mod key_changes;
mod purge;
mod store_reload;

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use identity::{CallerCredential, DelegationRequest, KeyId, KeyRecord, KeyRing, NewKey, Principal};
use option_types::DEFAULT_ENDED_KEY_RETENTION;
use tokio::sync::watch;
use tool::clock::duration_millis;
use tool::store::WritePrecondition;
use tool::{ErrorCode, Json, PermissionLevel, Problem, Secret, Store, StoreError, WallTime};

use crate::error::ApiError;
pub use creation::key_error;

/// Maximum number of active keys.
const MAX_KEYS: usize = 100_000;
/// Maximum number of personas.
const MAX_PERSONAS: usize = 1_000;
/// Maximum number of roles, of users and of organizations.
const MAX_DIRECTORY_RECORDS: usize = 10_000;
/// Maximum number of active keys that are delegated from one key.
const MAX_DELEGATED_KEYS: usize = 256;
/// Maximum number of ended keys that are removed during a delegation.
const MAX_REMOVED_AT_ONCE: usize = 16;
/// How long the store may be unavailable before authentication fails.
pub const STALE_AFTER: Duration = Duration::from_mins(1);

/// The keys and the directory records, persisted in the store and cached as a key ring.
#[derive(Debug)]
pub struct KeyStore {
    store: Arc<dyn Store>,
    ring: ArcSwap<KeyRing>,
    anonymous_level: Option<PermissionLevel>,
    guest_sources: ArcSwapOption<BTreeSet<String>>,
    /// Numbers the reloads in the order in which they start.
    reload_counter: AtomicU64,
    /// The latest change of the ring, for subscribers.
    reloads: watch::Sender<u64>,
    reload_state: Mutex<key_changes::ReloadState>,
    /// How long the record of a revoked or expired key is kept, in milliseconds.
    ended_key_retention_ms: AtomicU64,
    /// Since when the store is unavailable, in milliseconds of the monotonic clock; 0 if it is
    /// available.
    failing_since: AtomicU64,
}

impl KeyStore {
    /// Loads the keys from the store. `anonymous_level` is the level of callers without a
    /// credential.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    pub async fn load(
        store: Arc<dyn Store>,
        anonymous_level: Option<PermissionLevel>,
    ) -> Result<(Self, Vec<Problem>), StoreError> {
        let keys = Self {
            store,
            ring: ArcSwap::default(),
            anonymous_level,
            guest_sources: ArcSwapOption::empty(),
            reload_counter: AtomicU64::new(1),
            reloads: watch::Sender::new(0),
            reload_state: Mutex::default(),
            ended_key_retention_ms: AtomicU64::new(duration_millis(DEFAULT_ENDED_KEY_RETENTION)),
            failing_since: AtomicU64::new(0),
        };
        let problems = keys.reload().await?;
        Ok((keys, problems))
    }

    /// Restricts users without a persona to these sources, except for the owner
    /// (`default_guest_modules` of the module API); `None` means no restriction. Without a change it
    /// recomputes no principal.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable; the ring then stays unchanged.
    pub async fn set_guest_sources(
        &self,
        modules: Option<BTreeSet<String>>,
    ) -> Result<(), StoreError> {
        let modules = modules.map(Arc::new);
        let before = self.guest_sources.swap(modules.clone());
        // The ring lacks a change whose reload failed or is under way.
        let is_active = self.key_ring().personas().guest_modules() == modules.as_deref();
        if before == modules && is_active {
            return Ok(());
        }
        self.reload_directory().await.map(drop)
    }

    /// Returns the underlying store.
    pub fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }

    /// The current key ring.
    pub fn key_ring(&self) -> Arc<KeyRing> {
        self.ring.load_full()
    }

    /// Creates a key and stores its record.
    ///
    /// # Errors
    /// Returns an error if the request is invalid or the store is unavailable.
    pub async fn create_key(
        &self,
        key: NewKey,
        now: WallTime,
    ) -> Result<(Secret, KeyRecord), ApiError> {
        let (secret, record) = key
            .issue_key(random_bytes()?, now)
            .map_err(|fault| ApiError::new(ErrorCode::InvalidRequest, fault.to_string()))?;
        let ring = self.key_ring();
        // Ended keys do not count; they are searched only near the limit.
        if ring.len() >= MAX_KEYS && count_live(ring, now).await >= MAX_KEYS {
            let message = format!("there are already {MAX_KEYS} valid keys, the maximum");
            return Err(ApiError::new(ErrorCode::TooLarge, message)
                .with_help("revoke unused keys; run `toolkeep key list` to see them"));
        }
        self.store_record(&record, WritePrecondition::Absent).await?;
        Ok((secret, record))
    }

    /// Delegates the key of `delegator` with fewer permissions.
    ///
    /// # Errors
    /// Returns an error if its credential is not a key, it lacks what is requested, too many keys
    /// were delegated from it, or the store is unavailable.
    pub async fn delegate_key(
        &self,
        delegator: &Principal,
        request: DelegationRequest,
        now: WallTime,
    ) -> Result<(Secret, KeyRecord), ApiError> {
        let ring = self.key_ring();
        let own = ring.find_record(delegator.key_id()).ok_or_else(|| {
            ApiError::new(ErrorCode::Forbidden, "only a Toolkeep API key can be delegated")
                .with_help("use a key from `toolkeep key create`")
        })?;
        if let Some(subject) = &request.subject
            && *subject != own.subject
            && ring.directory().find_user(&own.org, subject).is_none()
            && delegator.has_right(identity::Right::ActAs)
        {
            let message = format!("no user `{}`", subject.escape_debug());
            return Err(ApiError::new(ErrorCode::NotFound, message).with_help(
                "run `toolkeep user list` to \
                    see all users",
            ));
        }
        self.remove_ended_delegations(delegator, now).await?;
        let new = NewKey::delegate_key(Self::generate_key_id()?, (own, delegator), request, now)
            .map_err(|fault| key_error(&fault))?;
        self.create_key(new, now).await
    }

    /// Revokes a key and all keys that were delegated from it, effective immediately.
    ///
    /// # Errors
    /// Returns an error if the key does not exist or the store is unavailable.
    pub async fn revoke_key(&self, id: &str, now: WallTime) -> Result<KeyRecord, ApiError> {
        self.update_record(id, |record| record.revoked_at = record.revoked_at.or(Some(now))).await
    }

    /// Consumes a single-use key atomically: of two concurrent attempts, one fails.
    ///
    /// # Errors
    /// Returns an error if the key does not exist, is consumed or revoked, or the store is
    /// unavailable.
    pub async fn consume_key(&self, id: &str, now: WallTime) -> Result<(), ApiError> {
        let mut first = false;
        let used = self.update_record(id, |record| {
            first = record.revoked_at.is_none();
            record.revoked_at = record.revoked_at.or(Some(now));
        });
        match used.await {
            Ok(_) if first => Ok(()),
            Ok(_) => Err(ApiError::new(ErrorCode::Forbidden, "the one-time key was already used")),
            Err(error) if error.code() == ErrorCode::Conflict => {
                Err(ApiError::new(ErrorCode::Forbidden, "the one-time key was already used"))
            }
            Err(error) => Err(error),
        }
    }

    /// Changes the level of a key after the level of its user changed from `former` to `new`.
    ///
    /// # Errors
    /// Returns an error if the key does not exist or the store is unavailable.
    pub async fn change_level(
        &self,
        id: &str,
        former: PermissionLevel,
        new: PermissionLevel,
    ) -> Result<(), ApiError> {
        let change = |record: &mut KeyRecord| {
            (record.level, record.level_fixed) = record.level_after(former, new);
        };
        self.update_record(id, change).await.map(drop)
    }

    /// Grants the owner key the rights that were introduced after it was created. Requires access
    /// to the data directory. Revoked, delegated or lowered keys stay unchanged; returns whether it
    /// changed.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    pub async fn grant_new_owner_rights(
        &self,
        presented: &str,
        now: WallTime,
    ) -> Result<bool, ApiError> {
        let ring = self.key_ring();
        let Ok(owner) = ring.verify_key(Some(presented), now) else { return Ok(false) };
        let record = ring.find_record(owner.key_id()).filter(|record| {
            record.level == PermissionLevel::Owner
                && !record.is_agent
                && record.delegations.is_empty()
        });
        let all: BTreeSet<_> = identity::Right::ALL.iter().copied().collect();
        let Some(record) = record.filter(|record| record.rights != all) else { return Ok(false) };
        self.update_record(record.id.as_str(), |record| record.rights = all).await?;
        Ok(true)
    }

    async fn update_record(
        &self,
        id: &str,
        change: impl FnOnce(&mut KeyRecord),
    ) -> Result<KeyRecord, ApiError> {
        let missing =
            || ApiError::new(ErrorCode::NotFound, format!("no key `{}`", id.escape_debug()));
        let key = self.key_ring().find_record(id).map(KeyRecord::store_key).ok_or_else(missing)?;
        let stored = self.store.get_value(&key).await?.ok_or_else(missing)?;
        // The current row, not the one that was read before.
        let mut record: KeyRecord = serde_json::from_slice(&stored.bytes).map_err(|_| missing())?;
        change(&mut record);
        self.store_record(&record, WritePrecondition::Version(stored.version)).await?;
        Ok(record)
    }

    async fn store_record(
        &self,
        record: &KeyRecord,
        expect: WritePrecondition,
    ) -> Result<(), ApiError> {
        let bytes = Json::encode(record).bytes().clone();
        let version = self.store.put_value(&record.store_key(), expect, Some(bytes)).await?;
        self.apply_key_change(record.id.as_str(), version, Some(record.clone()));
        Ok(())
    }

    /// Generates a random key id.
    ///
    /// # Errors
    /// Returns an error if the operating system provides no random bytes.
    pub fn generate_key_id() -> Result<KeyId, ApiError> {
        Ok(KeyId::random(random_bytes()?))
    }

    /// Returns a secret that is generated once and stored, such as the hash key of the records.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    pub async fn get_or_create_secret(&self, name: &str) -> Result<Secret, ApiError> {
        let fresh = tool::Digest(random_bytes()?).to_string();
        self.get_or_insert_secret(name, fresh).await
    }

    /// Returns a stored secret, or stores `new_secret` if there is none yet.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    pub async fn get_or_insert_secret(
        &self,
        name: &str,
        new_secret: String,
    ) -> Result<Secret, ApiError> {
        let put = self
            .store
            .put_value(name, WritePrecondition::Absent, Some(Bytes::from(new_secret)))
            .await;
        match put {
            Ok(_) | Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let kept = self.store.get_value(name).await?;
        let text = kept.and_then(|kept| String::from_utf8(kept.bytes.to_vec()).ok());
        text.map(Secret::new).ok_or_else(|| {
            ApiError::new(
                ErrorCode::StoreUnavailable,
                format!(
                    "the header `{name}` contains \
                invalid characters"
                ),
            )
        })
    }
}

impl KeyStore {
    /// Returns the principal of a credential as it is at `now`, for streams and other work that outlasts
    /// its request: with at most the level and the restrictions of `before`, the one that began it; `None` once the credential is no longer valid. Of a
    /// token only what is stored here is known: its expiry, and whether its user or organisation was
    /// disabled.
    pub fn current_principal(&self, before: &Principal, now: WallTime) -> Option<Principal> {
        let is_valid = self.key_ring().is_still_valid(before, now);
        let renew =
            || gateway::PrincipalResolver::renew_principal(self, before.caller(), before, now);
        is_valid.then(renew).flatten()
    }
}

/// Node certificates are valid for as long as the keys that they were issued with.
impl tool::node_registry::NodeKeyStatus for KeyStore {
    fn is_key_ended(&self, key: &str, now: WallTime) -> bool {
        self.key_ring().invalid_reason(key, now).is_some()
    }
}

/// Pending calls resume with the current permissions of their caller.
impl gateway::PrincipalResolver for KeyStore {
    fn resolve_caller(&self, caller: &tool::Caller, now: WallTime) -> gateway::CredentialStatus {
        match self.key_ring().principal_of_caller(caller, now) {
            CallerCredential::Valid(principal) => {
                gateway::CredentialStatus::Valid(principal.clone())
            }
            CallerCredential::Invalid => gateway::CredentialStatus::Invalid,
            CallerCredential::NotStoredHere => gateway::CredentialStatus::NotStoredHere,
        }
    }
}

/// Counts the active keys by scanning all of them.
async fn count_live(ring: Arc<KeyRing>, now: WallTime) -> usize {
    let counted = tokio::task::spawn_blocking(move || ring.count_valid(now)).await;
    // This only happens during shutdown.
    counted.unwrap_or(MAX_KEYS)
}

/// Returns random bytes of the operating system, for keys and tokens.
///
/// # Errors
/// [`ErrorCode::Internal`] if the system has none.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], ApiError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        ApiError::new(
            ErrorCode::Internal,
            format!(
                "cannot get random bytes: \
            {error}"
            ),
        )
    })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
