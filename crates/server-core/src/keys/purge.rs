//! Keys that ended long ago leave the store, so that they count for nothing.

use std::time::Duration;

use tool::Wall;

use super::Keys;
use crate::error::ApiError;

/// How long the record of a key stays after it was revoked or expired.
pub(super) const KEPT: Duration = Duration::from_hours(24 * 30);
/// Records removed at once. The store remembers no more than 1,000 removals, and all must be seen.
const AT_ONCE: usize = 200;

impl Keys {
    /// Removes some of the keys that ended more than 30 days ago; how many.
    ///
    /// # Errors
    /// Where the store does not answer.
    pub async fn purge(&self, now: Wall) -> Result<usize, ApiError> {
        let kept = u64::try_from(KEPT.as_millis()).unwrap_or(u64::MAX);
        let Some(until) = now.0.checked_sub(kept).map(Wall) else { return Ok(0) };
        let ring = self.ring();
        let found = tokio::task::spawn_blocking(move || {
            let ended = ring.ended_before(until).take(AT_ONCE);
            ended.map(|record| record.id.to_string()).collect::<Vec<_>>()
        });
        // Only where the process ends.
        let found = found.await.unwrap_or_default();
        for id in &found {
            self.forget(id).await?;
        }
        Ok(found.len())
    }
}
