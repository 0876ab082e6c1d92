//! Check that the configured Redis server responds.

use std::sync::Arc;

use egress::{EgressClient, EgressOptions};
use store::RedisCache;
use tool::{Cache as _, Secret, StoreError};

use super::CheckFinding;
use host::clock::SystemClock;

/// A key that is read but never written.
const PROBE_KEY: &str = "toolkeep/doctor";

/// Checks whether Redis responds; `None` if none is configured.
pub(super) async fn redis_finding(url: Option<&Secret>) -> Option<CheckFinding> {
    let url = url?;
    let what = "redis";
    Some(match probe_redis(url).await {
        Ok(()) => CheckFinding::ok(what, "answers"),
        Err(error) => {
            let fix = "check `redis:` in the configuration and the Redis server; until it \
                       responds, module manifests are fetched from the modules";
            CheckFinding::error(what, error.to_string(), fix)
        }
    })
}

async fn probe_redis(url: &Secret) -> Result<(), StoreError> {
    let egress = EgressClient::new(EgressOptions::default());
    let egress = egress.map_err(|error| StoreError::Unavailable(error.to_string()))?;
    let cache = RedisCache::new(url, egress, Arc::new(SystemClock::default()))?;
    cache.get_cached(PROBE_KEY, 1).await.map(drop)
}
