//! Creation of keys on behalf of other keys, and the limit for delegated keys.

use identity::{KeyIssueError, KeyRecord, NewKey, Principal};
use tool::{ErrorCode, Secret, WallTime};

use super::{KeyStore, MAX_DELEGATED_KEYS, MAX_REMOVED_AT_ONCE};
use crate::error::ApiError;

impl KeyStore {
    /// Creates a key with permissions that `creator` may grant. If the key of `creator` is
    /// delegated, the new key depends on it. The record names the creator.
    ///
    /// # Errors
    /// Returns an error if the maker is not permitted, the request is invalid, too many keys were
    /// delegated from the maker's root key, or the store is unavailable.
    pub async fn create_by(
        &self,
        creator: &Principal,
        key: NewKey,
        now: WallTime,
    ) -> Result<(Secret, KeyRecord), ApiError> {
        let key = key.created_by(creator, &self.key_ring()).map_err(|fault| key_error(&fault))?;
        if !key.delegations.is_empty() {
            self.remove_ended_delegations(creator, now).await?;
        }
        self.create_key(key, now).await
    }

    /// Removes ended keys that were delegated from the same root key as this one.
    ///
    /// # Errors
    /// [`ErrorCode::TooLarge`] if too many of them are active, or an error if the store is
    /// unavailable.
    pub(super) async fn remove_ended_delegations(
        &self,
        creator: &Principal,
        now: WallTime,
    ) -> Result<(), ApiError> {
        let (ring, first) = (self.key_ring(), creator.limit_key_id());
        let (over, hold): (Vec<_>, Vec<_>) = ring
            .delegated_from(first)
            .partition(|record| ring.invalid_reason(record.id.as_str(), now).is_some());
        if hold.len() >= MAX_DELEGATED_KEYS {
            let message = format!(
                "{MAX_DELEGATED_KEYS} keys are already delegated from this key, \
                the maximum"
            );
            return Err(ApiError::new(ErrorCode::TooLarge, message)
                .with_help("revoke some of them, or wait until they expire"));
        }
        for record in over.into_iter().take(MAX_REMOVED_AT_ONCE) {
            self.remove_key(record.id.as_str()).await?;
        }
        Ok(())
    }
}

/// Converts a key creation fault into an API error.
pub fn key_error(error: &KeyIssueError) -> ApiError {
    let code = if error.is_malformed() { ErrorCode::InvalidRequest } else { ErrorCode::Forbidden };
    ApiError::new(code, error.to_string())
}
