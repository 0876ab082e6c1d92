//! Where the manifests of modules are kept: in Redis where there is one, else in the store. Another Redis
//! in the configuration counts as soon as it is taken.

use std::sync::{Arc, Mutex, PoisonError};

use egress::Egress;
use server_core::Keys;
use source_modules::Manifests;
use store::{RedisCache, StoreCache};
use tool::{Cache, Clock, Secret, Store};

use cli_core::failure::Failure;
use config::Config;

/// The manifests, and what a cache for them is made of.
pub(crate) struct Kept {
    pub(crate) manifests: Arc<Manifests>,
    store: Arc<dyn Store>,
    egress: Egress,
    clock: Arc<dyn Clock>,
    /// The Redis they are in; it may hold a password.
    redis: Mutex<Option<Secret>>,
}

impl Kept {
    pub(crate) async fn new(
        config: &Config,
        (keys, store): (&Keys, Arc<dyn Store>),
        egress: Egress,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Failure> {
        let secret = keys.once("secret/manifests").await;
        let secret = secret.map_err(|error| super::fault("the manifests' key")(error.message()))?;
        let cache = cache(config.redis.as_ref(), &store, &egress, &clock);
        let manifests = Arc::new(Manifests::new(cache, Arc::clone(&clock), secret));
        let redis = Mutex::new(config.redis.clone());
        Ok(Self { manifests, store, egress, clock, redis })
    }

    /// Takes a new configuration.
    pub(crate) fn follow(&self, config: &Config) {
        let mut redis = self.redis.lock().unwrap_or_else(PoisonError::into_inner);
        if redis.as_ref().map(Secret::open) == config.redis.as_ref().map(Secret::open) {
            return;
        }
        redis.clone_from(&config.redis);
        tracing::info!("the manifests of modules are kept elsewhere from now on");
        let cache = cache(config.redis.as_ref(), &self.store, &self.egress, &self.clock);
        self.manifests.move_to(cache);
    }
}

/// A Redis that cannot be used is no reason to stop: the store then keeps them.
fn cache(
    redis: Option<&Secret>,
    store: &Arc<dyn Store>,
    egress: &Egress,
    clock: &Arc<dyn Clock>,
) -> Arc<dyn Cache> {
    let redis = redis.and_then(|url| {
        let cache = RedisCache::new(url, egress.clone(), Arc::clone(clock));
        cache.map_err(|error| tracing::warn!("{error}")).ok()
    });
    match redis {
        Some(redis) => Arc::new(redis),
        None => Arc::new(StoreCache::new(Arc::clone(store), Arc::clone(clock))),
    }
}
