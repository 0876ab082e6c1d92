//! The in-memory store, for tests and for embedding programs.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tool::store::Expect;
use tool::{Boxed, Store, StoreError, Version, Versioned};

use crate::bounds::{NEWS_ROWS, SCAN_ROWS, TOMBSTONES, check_key, check_since, check_value};

/// Stores everything in memory. Removals are remembered as in [`crate::SqliteStore`].
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    rows: BTreeMap<String, Versioned>,
    /// Keys by the version of the write that made their row.
    writes: BTreeMap<Version, String>,
    /// Removed keys by version.
    tombstones: BTreeMap<Version, String>,
    version: Version,
    floor: Version,
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic of another thread leaves no partial write: each consists of infallible inserts.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put_now(
        &self,
        key: &str,
        expect: Expect,
        bytes: Option<Bytes>,
    ) -> Result<Version, StoreError> {
        check_key(key)?;
        check_value(key, bytes.as_deref())?;
        self.state().put(key, expect, bytes)
    }

    fn scan_now(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<Versioned> {
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let state = self.state();
        let rows = state.rows.range::<str, _>((start, Bound::Unbounded)).map(|(_, row)| row);
        let ours = rows.take_while(|row| row.key.starts_with(prefix)).filter(|row| !row.removed);
        ours.take(limit.min(SCAN_ROWS)).cloned().collect()
    }

    fn news_now(&self, since: Version) -> Result<Vec<Versioned>, StoreError> {
        let state = self.state();
        check_since(since, state.floor)?;
        let later = state.writes.range((Bound::Excluded(since), Bound::Unbounded));
        let rows = later.filter_map(|(_, key)| state.rows.get(key));
        Ok(rows.take(NEWS_ROWS).cloned().collect())
    }
}

impl State {
    fn put(
        &mut self,
        key: &str,
        expect: Expect,
        bytes: Option<Bytes>,
    ) -> Result<Version, StoreError> {
        let found = self.rows.get(key);
        let stands = found.filter(|row| !row.removed).map(|row| row.version);
        let holds = match expect {
            Expect::Absent => stands.is_none(),
            Expect::Version(version) => stands == Some(version),
        };
        if !holds {
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
        let row = Versioned { key: key.to_owned(), version: self.version, bytes, removed };
        self.rows.insert(row.key.clone(), row);
        self.writes.insert(self.version, key.to_owned());
        if removed {
            self.tombstones.insert(self.version, key.to_owned());
        }
        self.forget();
        Ok(self.version)
    }

    fn forget(&mut self) {
        while self.tombstones.len() > TOMBSTONES {
            let Some((version, key)) = self.tombstones.pop_first() else { return };
            self.writes.remove(&version);
            self.rows.remove(&key);
            self.floor = version;
        }
    }
}

impl Store for MemoryStore {
    fn get<'a>(&'a self, key: &'a str) -> Boxed<'a, Result<Option<Versioned>, StoreError>> {
        Box::pin(async move { Ok(self.state().rows.get(key).filter(|row| !row.removed).cloned()) })
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        expect: Expect,
        bytes: Option<Bytes>,
    ) -> Boxed<'a, Result<Version, StoreError>> {
        Box::pin(async move { self.put_now(key, expect, bytes) })
    }

    fn scan<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> Boxed<'a, Result<Vec<Versioned>, StoreError>> {
        Box::pin(async move { Ok(self.scan_now(prefix, after, limit)) })
    }

    fn news(&self, since: Version) -> Boxed<'_, Result<Vec<Versioned>, StoreError>> {
        Box::pin(async move { self.news_now(since) })
    }
}
