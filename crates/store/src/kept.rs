//! A cache on top of a store: values outlive the process, and nothing else is needed.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use tool::store::Expect;
use tool::{Boxed, Cache, Clock, Store, StoreError, Wall};

/// Size of the expiry time before a value, in bytes; the time is in milliseconds.
const HEAD: usize = 8;

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

    async fn read(&self, key: &str, most: usize) -> Result<Option<Bytes>, StoreError> {
        let Some(kept) = self.store.get(&named(key)).await? else { return Ok(None) };
        let mut value = kept.bytes;
        let Some(head) = split_prefix(&mut value, HEAD) else { return Ok(None) };
        let until = head.as_ref().try_into().map(u64::from_be_bytes).map_or(Wall(0), Wall);
        let there = until > self.clock.wall() && value.len() <= most;
        Ok(there.then_some(value))
    }

    async fn all(&self, keys: &[&str]) -> Result<bool, StoreError> {
        for key in keys {
            if self.read(key, usize::MAX).await?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn write(&self, pairs: &[(&str, Bytes)], life: Duration) -> Result<(), StoreError> {
        let life = u64::try_from(life.as_millis()).unwrap_or(u64::MAX);
        let until = self.clock.wall().0.saturating_add(life);
        for (key, value) in pairs {
            let mut bytes = BytesMut::with_capacity(HEAD + value.len());
            bytes.put_u64(until);
            bytes.put_slice(value);
            self.put_over(&named(key), bytes.freeze()).await?;
        }
        Ok(())
    }

    /// Overwrites a value. A concurrent writer may win once; its value is as good as ours.
    async fn put_over(&self, key: &str, bytes: Bytes) -> Result<(), StoreError> {
        let there = self.store.get(key).await?;
        let expect = there.map_or(Expect::Absent, |there| Expect::Version(there.version));
        match self.store.put(key, expect, Some(bytes)).await {
            Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn named(key: &str) -> String {
    format!("cache/{key}")
}

/// Splits off the first `at` bytes; `None` if there are fewer.
fn split_prefix(bytes: &mut Bytes, at: usize) -> Option<Bytes> {
    (bytes.len() >= at).then(|| bytes.split_to(at))
}

impl Cache for StoreCache {
    fn get<'a>(
        &'a self,
        key: &'a str,
        most: usize,
    ) -> Boxed<'a, Result<Option<Bytes>, StoreError>> {
        Box::pin(self.read(key, most))
    }

    fn has<'a>(&'a self, keys: &'a [&'a str]) -> Boxed<'a, Result<bool, StoreError>> {
        Box::pin(self.all(keys))
    }

    fn put<'a>(
        &'a self,
        pairs: &'a [(&'a str, Bytes)],
        life: Duration,
    ) -> Boxed<'a, Result<(), StoreError>> {
        Box::pin(self.write(pairs, life))
    }
}
