//! Creation of keys on behalf of other keys, and the limit for delegated keys.

use identity::{KeyFault, KeyRecord, NewKey, Principal};
use tool::{Code, Secret, Wall};

use super::{FORGOTTEN, HANDED_ON, Keys};
use crate::error::ApiError;

impl Keys {
    /// Creates a key with permissions that `maker` may grant. If the key of `maker` is delegated,
    /// the new key depends on it. The record names the creator.
    ///
    /// # Errors
    /// Returns an error if the maker is not permitted, the request is invalid, too many keys were
    /// delegated from the maker's root key, or the store is unavailable.
    pub async fn create_by(
        &self,
        maker: &Principal,
        new: NewKey,
        now: Wall,
    ) -> Result<(Secret, KeyRecord), ApiError> {
        let new = new.created_by(maker, &self.ring()).map_err(|fault| refused(&fault))?;
        if !new.delegations.is_empty() {
            self.make_room(maker, now).await?;
        }
        self.create(new, now).await
    }

    /// Removes ended keys that were delegated from the same root key as this one.
    ///
    /// # Errors
    /// [`Code::TooLarge`] if too many of them are active, or an error if the store is unavailable.
    pub(super) async fn make_room(&self, maker: &Principal, now: Wall) -> Result<(), ApiError> {
        let (ring, first) = (self.ring(), maker.root_key());
        let (over, hold): (Vec<_>, Vec<_>) =
            ring.handed_on(first).partition(|record| ring.over(record.id.as_str(), now).is_some());
        if hold.len() >= HANDED_ON {
            let told = format!("{HANDED_ON} keys came of this one already");
            return Err(ApiError::new(Code::TooLarge, told)
                .fix("revoke some of them, or wait until they end"));
        }
        for record in over.into_iter().take(FORGOTTEN) {
            self.forget(record.id.as_str()).await?;
        }
        Ok(())
    }
}

/// Converts a key creation fault into an API error.
pub fn refused(fault: &KeyFault) -> ApiError {
    let code = if fault.is_malformed() { Code::InvalidRequest } else { Code::Forbidden };
    ApiError::new(code, fault.to_string())
}
