//! A cache on top of a store: values outlive the process, and nothing else is needed.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use tool::clock::duration_millis;
use tool::store::WritePrecondition;
use tool::{BoxFuture, Cache, Clock, Store, StoreError, WallTime};

/// Size of the expiry time before a value, in bytes; the time is in milliseconds.
const EXPIRY_BYTES: usize = 8;

/// Prefix of the keys of cached values. They have no MAC: they are untrusted, and their readers verify
/// them.
pub(crate) const CACHE_PREFIX: &str = "cache/";

/// Caches values under `cache/` in a store, each with its expiry time.
#[derive(Debug)]
pub struct StoreCache {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

impl StoreCache {
    /// Creates a cache in this store.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }

    async fn read_value(&self, key: &str, most: usize) -> Result<Option<Bytes>, StoreError> {
        let Some(kept) = self.store.get_value(&cache_key(key)).await? else { return Ok(None) };
        let mut value = kept.bytes;
        let Ok(until) = value.try_get_u64().map(WallTime) else { return Ok(None) };
        let there = until > self.clock.wall_now() && value.len() <= most;
        Ok(there.then_some(value))
    }

    async fn all_exist(&self, keys: &[&str]) -> Result<bool, StoreError> {
        for key in keys {
            if self.read_value(key, usize::MAX).await?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn write_all(&self, pairs: &[(&str, Bytes)], life: Duration) -> Result<(), StoreError> {
        let life = duration_millis(life);
        let until = self.clock.wall_now().0.saturating_add(life);
        for (key, value) in pairs {
            let mut bytes = BytesMut::with_capacity(EXPIRY_BYTES + value.len());
            bytes.put_u64(until);
            bytes.put_slice(value);
            self.overwrite(&cache_key(key), bytes.freeze()).await?;
        }
        Ok(())
    }

    /// Overwrites a value. A concurrent writer may win once; its value is as good as ours.
    async fn overwrite(&self, key: &str, bytes: Bytes) -> Result<(), StoreError> {
        let there = self.store.get_value(key).await?;
        let expect = there
            .map_or(WritePrecondition::Absent, |there| WritePrecondition::Version(there.version));
        match self.store.put_value(key, expect, Some(bytes)).await {
            Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn cache_key(key: &str) -> String {
    format!("{CACHE_PREFIX}{key}")
}

impl Cache for StoreCache {
    fn get_cached<'a>(
        &'a self,
        key: &'a str,
        most: usize,
    ) -> BoxFuture<'a, Result<Option<Bytes>, StoreError>> {
        Box::pin(self.read_value(key, most))
    }

    fn contains_all<'a>(&'a self, keys: &'a [&'a str]) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(self.all_exist(keys))
    }

    fn put_all<'a>(
        &'a self,
        pairs: &'a [(&'a str, Bytes)],
        life: Duration,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.write_all(pairs, life))
    }
}
