//! Removal of keys that ended long ago from the store.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tool::WallTime;
use tool::clock::duration_millis;

use super::KeyStore;
use crate::error::ApiError;

/// Maximum number of records removed at once. The store remembers at most 1,000 removals, and other
/// servers must see all of them.
const MAX_PURGED: usize = 200;

impl KeyStore {
    /// Sets how long the record of a revoked or expired key is kept.
    pub fn set_ended_key_retention(&self, retention: Duration) {
        self.ended_key_retention_ms.store(duration_millis(retention), Ordering::Release);
    }

    /// Removes some of the keys that ended longer ago than they are kept; returns how many.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    pub async fn purge_ended(&self, now: WallTime) -> Result<usize, ApiError> {
        let kept = self.ended_key_retention_ms.load(Ordering::Acquire);
        let Some(until) = now.0.checked_sub(kept).map(WallTime) else { return Ok(0) };
        let ring = self.key_ring();
        let found = tokio::task::spawn_blocking(move || {
            let ended = ring.ended_before(until).take(MAX_PURGED);
            ended.map(|record| record.id.to_string()).collect::<Vec<_>>()
        });
        // This only happens during shutdown.
        let found = found.await.unwrap_or_default();
        for id in &found {
            self.remove_key(id).await?;
        }
        Ok(found.len())
    }
}
