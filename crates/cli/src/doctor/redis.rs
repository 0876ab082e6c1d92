//! The check whether the configured Redis responds.

use std::sync::Arc;

use egress::{Egress, EgressSettings};
use store::RedisCache;
use tool::{Cache as _, Secret, StoreError};

use super::Finding;
use host::clock::SystemClock;

/// A key that is read but never written.
const ABSENT: &str = "toolkeep/doctor";

/// Checks whether Redis responds; `None` if none is configured.
pub(super) async fn finding(url: Option<&Secret>) -> Option<Finding> {
    let url = url?;
    let what = "redis";
    Some(match asked(url).await {
        Ok(()) => Finding::good(what, "answers"),
        Err(error) => {
            let fix = "check `redis:` in the configuration and the Redis itself; until it answers, the manifests \
                       of modules are read from the modules";
            Finding::wrong(what, error.to_string(), fix)
        }
    })
}

async fn asked(url: &Secret) -> Result<(), StoreError> {
    let egress = Egress::new(EgressSettings::default());
    let egress = egress.map_err(|error| StoreError::Unavailable(error.to_string()))?;
    let cache = RedisCache::new(url, egress, Arc::new(SystemClock::default()))?;
    cache.get(ABSENT, 1).await.map(drop)
}
