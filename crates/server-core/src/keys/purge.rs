//! Removal of keys that ended long ago from the store.

use std::time::Duration;

use tool::Wall;

use super::Keys;
use crate::error::ApiError;

/// How long the record of a revoked or expired key is kept.
pub(super) const KEPT: Duration = Duration::from_hours(24 * 30);
/// Maximum number of records removed at once. The store remembers at most 1,000 removals, and other
/// servers must see all of them.
const AT_ONCE: usize = 200;

impl Keys {
    /// Removes some of the keys that ended more than 30 days ago; returns how many.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    pub async fn purge(&self, now: Wall) -> Result<usize, ApiError> {
        let kept = u64::try_from(KEPT.as_millis()).unwrap_or(u64::MAX);
        let Some(until) = now.0.checked_sub(kept).map(Wall) else { return Ok(0) };
        let ring = self.ring();
        let found = tokio::task::spawn_blocking(move || {
            let ended = ring.ended_before(until).take(AT_ONCE);
            ended.map(|record| record.id.to_string()).collect::<Vec<_>>()
        });
        // This only happens during shutdown.
        let found = found.await.unwrap_or_default();
        for id in &found {
            self.forget(id).await?;
        }
        Ok(found.len())
    }
}
