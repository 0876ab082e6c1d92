//! Storage of module manifests: Redis if configured, else the store. A configuration update can
//! switch the Redis server.

use std::sync::{Arc, Mutex, PoisonError};

use egress::EgressClient;
use server_core::KeyStore;
use source_modules::ManifestCache;
use store::{RedisCache, StoreCache};
use tool::{Cache, Clock, Secret, Store};

use cli_core::command_error::CommandError;
use config::Config;

/// The manifest cache and the components it is built from.
pub(crate) struct ManifestStorage {
    pub(crate) manifest_cache: Arc<ManifestCache>,
    store: Arc<dyn Store>,
    egress: EgressClient,
    clock: Arc<dyn Clock>,
    /// URL of the active Redis server; it may contain a password.
    redis_url: Mutex<Option<Secret>>,
}

impl ManifestStorage {
    pub(crate) async fn new(
        config: &Config,
        keys: &KeyStore,
        store: Arc<dyn Store>,
        egress: EgressClient,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, CommandError> {
        let secret = keys.get_or_create_secret("secret/manifests").await;
        let secret =
            secret.map_err(|error| super::startup_error("the manifests' key")(error.message()))?;
        let cache = build_cache(config.redis_url.as_ref(), &store, &egress, &clock);
        let manifest_cache = Arc::new(ManifestCache::new(cache, Arc::clone(&clock), secret));
        let redis_url = Mutex::new(config.redis_url.clone());
        Ok(Self { manifest_cache, store, egress, clock, redis_url })
    }

    /// Applies a configuration update.
    pub(crate) fn apply_config(&self, config: &Config) {
        let mut redis_url = self.redis_url.lock().unwrap_or_else(PoisonError::into_inner);
        if redis_url.as_ref().map(Secret::expose) == config.redis_url.as_ref().map(Secret::expose) {
            return;
        }
        redis_url.clone_from(&config.redis_url);
        tracing::info!("the cache of module manifests was replaced");
        let cache = build_cache(config.redis_url.as_ref(), &self.store, &self.egress, &self.clock);
        self.manifest_cache.replace_cache(cache);
    }
}

/// Builds the cache. If Redis cannot be used, the store is used instead.
fn build_cache(
    redis_url: Option<&Secret>,
    store: &Arc<dyn Store>,
    egress: &EgressClient,
    clock: &Arc<dyn Clock>,
) -> Arc<dyn Cache> {
    let redis = redis_url.and_then(|url| {
        let cache = RedisCache::new(url, egress.clone(), Arc::clone(clock));
        cache.map_err(|error| tracing::warn!("{error}")).ok()
    });
    match redis {
        Some(redis) => Arc::new(redis),
        None => Arc::new(StoreCache::new(Arc::clone(store), Arc::clone(clock))),
    }
}
