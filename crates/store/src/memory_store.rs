//! The in-memory store, for tests and for embedding programs.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tool::store::WritePrecondition;
use tool::{BoxFuture, Store, StoreError, Version, VersionedValue};

use crate::store_limits::{
    MAX_CHANGE_ROWS, MAX_SCAN_ROWS, MAX_TOMBSTONES, check_key, check_since, check_value,
};

/// Stores everything in memory. Removals are remembered as in [`crate::SqliteStore`].
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<MemoryState>);

#[derive(Debug, Default)]
struct MemoryState {
    rows: BTreeMap<String, VersionedValue>,
    /// Keys by the version of the write that made their row.
    writes: BTreeMap<Version, String>,
    /// Removed keys by version.
    tombstones: BTreeMap<Version, String>,
    version: Version,
    oldest_complete: Version,
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock_state(&self) -> MutexGuard<'_, MemoryState> {
        // A panic of another thread leaves no partial write: each consists of infallible inserts.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put_sync(
        &self,
        key: &str,
        expect: WritePrecondition,
        bytes: Option<Bytes>,
    ) -> Result<Version, StoreError> {
        check_key(key)?;
        check_value(key, bytes.as_deref())?;
        self.lock_state().put_row(key, expect, bytes)
    }

    fn scan_sync(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<VersionedValue> {
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let state = self.lock_state();
        let rows = state.rows.range::<str, _>((start, Bound::Unbounded)).map(|(_, row)| row);
        let ours = rows.take_while(|row| row.key.starts_with(prefix)).filter(|row| !row.is_removal);
        ours.take(limit.min(MAX_SCAN_ROWS)).cloned().collect()
    }

    fn changes_since_sync(&self, since: Version) -> Result<Vec<VersionedValue>, StoreError> {
        let state = self.lock_state();
        check_since(since, state.oldest_complete)?;
        let later = state.writes.range((Bound::Excluded(since), Bound::Unbounded));
        let rows = later.filter_map(|(_, key)| state.rows.get(key));
        Ok(rows.take(MAX_CHANGE_ROWS).cloned().collect())
    }
}

impl MemoryState {
    fn put_row(
        &mut self,
        key: &str,
        expect: WritePrecondition,
        bytes: Option<Bytes>,
    ) -> Result<Version, StoreError> {
        let found = self.rows.get(key);
        let stands = found.filter(|row| !row.is_removal).map(|row| row.version);
        if !expect.allows_write(stands) {
            return Err(StoreError::Conflict { key: key.to_owned() });
        }
        if bytes.is_none() && stands.is_none() {
            return Ok(self.version);
        }
        if let Some(old) = found.map(|row| row.version) {
            self.writes.remove(&old);
            self.tombstones.remove(&old);
        }
        self.version = Version(self.version.0 + 1);
        let removed = bytes.is_none();
        let bytes = bytes.unwrap_or_default();
        let row = VersionedValue {
            key: key.to_owned(),
            version: self.version,
            bytes,
            is_removal: removed,
        };
        self.rows.insert(row.key.clone(), row);
        self.writes.insert(self.version, key.to_owned());
        if removed {
            self.tombstones.insert(self.version, key.to_owned());
        }
        self.prune_tombstones();
        Ok(self.version)
    }

    fn prune_tombstones(&mut self) {
        while self.tombstones.len() > MAX_TOMBSTONES {
            let Some((version, key)) = self.tombstones.pop_first() else { return };
            self.writes.remove(&version);
            self.rows.remove(&key);
            self.oldest_complete = version;
        }
    }
}

impl Store for MemoryStore {
    fn get_value<'a>(
        &'a self,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<VersionedValue>, StoreError>> {
        Box::pin(async move {
            Ok(self.lock_state().rows.get(key).filter(|row| !row.is_removal).cloned())
        })
    }

    fn put_value<'a>(
        &'a self,
        key: &'a str,
        expect: WritePrecondition,
        bytes: Option<Bytes>,
    ) -> BoxFuture<'a, Result<Version, StoreError>> {
        Box::pin(async move { self.put_sync(key, expect, bytes) })
    }

    fn scan_prefix<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<VersionedValue>, StoreError>> {
        Box::pin(async move { Ok(self.scan_sync(prefix, after, limit)) })
    }

    fn current_version(&self) -> BoxFuture<'_, Result<Version, StoreError>> {
        Box::pin(async move { Ok(self.lock_state().version) })
    }

    fn changes_since(
        &self,
        since: Version,
    ) -> BoxFuture<'_, Result<Vec<VersionedValue>, StoreError>> {
        Box::pin(async move { self.changes_since_sync(since) })
    }
}
