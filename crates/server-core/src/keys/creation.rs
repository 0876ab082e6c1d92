//! Keys that keys create, and how many may come of one.

use identity::{KeyFault, KeyRecord, NewKey, Principal};
use tool::{Code, Secret, Wall};

use super::{FORGOTTEN, HANDED_ON, Keys};
use crate::error::ApiError;

impl Keys {
    /// Creates a key as `maker` may: bound to its key, where that is delegated. Its record names the creator.
    ///
    /// # Errors
    /// Where the maker may not, the key does not fit, too many keys came of the maker's already, or the store
    /// does not answer.
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

    /// Forgets keys that ended of those that came of the same first key as this one's.
    ///
    /// # Errors
    /// [`Code::TooLarge`] where too many of them hold, and where the store does not answer.
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

/// A key that may not be created.
pub fn refused(fault: &KeyFault) -> ApiError {
    let code = if fault.is_malformed() { Code::InvalidRequest } else { Code::Forbidden };
    ApiError::new(code, fault.to_string())
}
