//! Where the manifests of modules are kept: in Redis where there is one, else in the store.

use std::sync::Arc;

use guard::egress::Egress;
use server::Keys;
use store::{RedisCache, StoreCache};
use tool::{Cache, Clock, Store};
use upstreams::module::Manifests;

use crate::cli::failure::Failure;
use crate::config::Config;

/// A Redis that cannot be used is no reason to stop: the store then keeps them.
pub(super) async fn kept(
    config: &Config,
    (keys, store): (&Keys, Arc<dyn Store>),
    egress: &Egress,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<Manifests>, Failure> {
    let secret = keys.once("secret/manifests").await;
    let secret = secret.map_err(|error| super::fault("the manifests' key")(error.message()))?;
    let redis = config.redis.as_ref().and_then(|url| {
        let cache = RedisCache::new(url, egress.clone(), Arc::clone(clock));
        cache.map_err(|error| tracing::warn!("{error}")).ok()
    });
    let cache: Arc<dyn Cache> = match redis {
        Some(redis) => Arc::new(redis),
        None => Arc::new(StoreCache::new(store, Arc::clone(clock))),
    };
    Ok(Arc::new(Manifests::new(cache, Arc::clone(clock), secret)))
}
