//! Growth with the number of keys: creating and revoking one, and following the changes of others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use identity::{KeyId, KeyRecord, NewKey};
use server_core::KeyStore;
use server_core::error::ApiError;
use store::MemoryStore;
use tool::store::WritePrecondition;
use tool::{
    BoxFuture, Clock, Json, MonotonicTime, Store, StoreError, Version, VersionedValue, WallTime,
};

use super::growth_row::{GrowthPoint, GrowthRow};

const NOW: WallTime = WallTime(1_800_000_000_000);

/// Measures all rows with these numbers of keys; `repetitions` of each operation.
pub(super) async fn measure_key_rows(
    sizes: &[usize],
    repetitions: usize,
) -> Result<Vec<GrowthRow>, String> {
    let row = |name| GrowthRow {
        name,
        grows: "keys",
        counts: "rows read or written",
        exponent_limit: 0.05,
        points: Vec::new(),
    };
    let mut create = row("create a key");
    let mut revoke = row("revoke a key");
    let mut follow = row("apply the revocation of a key by another server");
    for size in sizes {
        let store = Arc::new(RowCountStore::default());
        fill_store(store.as_ref(), *size).await?;
        let keys = load_keys(&store).await?;
        let other = load_keys(&store).await?;
        let mut timer = RowTimer { store: &store, size: *size, repetitions };
        create.points.push(
            timer
                .measure(|at| {
                    let keys = &keys;
                    async move {
                        let key = NewKey::for_owner(key_id(&format!("new{at}"))?);
                        keys.create_key(key, NOW).await.map(drop).map_err(api_message)
                    }
                })
                .await?,
        );
        revoke.points.push(
            timer
                .measure(|at| {
                    let keys = &keys;
                    async move {
                        let id = format!("new{at}");
                        keys.revoke_key(&id, NOW).await.map(drop).map_err(api_message)
                    }
                })
                .await?,
        );
        // One poll catches up with all changes above; each further one has one change.
        poll(&other).await?;
        follow.points.push(
            timer
                .measure(|at| {
                    let (keys, other) = (&keys, &other);
                    async move {
                        let id = format!("k{:06}", at % sizes.first().copied().unwrap_or(1));
                        keys.revoke_key(&id, NOW).await.map_err(api_message)?;
                        poll(other).await
                    }
                })
                .await?,
        );
    }
    Ok(vec![create, revoke, follow])
}

#[expect(clippy::needless_pass_by_value, reason = "the signature of `map_err`")]
fn api_message(error: ApiError) -> String {
    error.message().to_owned()
}

async fn poll(keys: &KeyStore) -> Result<(), String> {
    keys.poll_changes(&FixedClock).await.map_err(|error| error.to_string())
}

async fn load_keys(store: &Arc<RowCountStore>) -> Result<KeyStore, String> {
    let store = Arc::clone(store) as Arc<dyn Store>;
    let (keys, _) = KeyStore::load(store, None).await.map_err(|error| error.to_string())?;
    poll(&keys).await?;
    Ok(keys)
}

fn key_id(text: &str) -> Result<KeyId, String> {
    KeyId::new(text.to_owned()).map_err(|error| error.to_string())
}

pub(super) async fn fill_store(store: &dyn Store, keys: usize) -> Result<(), String> {
    let model = NewKey::for_owner(key_id("model")?).issue_key([1; 32], NOW);
    let (_, model) = model.map_err(|error| error.to_string())?;
    for at in 0..keys {
        let record = KeyRecord { id: key_id(&format!("k{at:06}"))?, ..model.clone() };
        let bytes = Some(Json::encode(&record).bytes().clone());
        store
            .put_value(&record.store_key(), WritePrecondition::Absent, bytes)
            .await
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Measures operations on keys in one store.
struct RowTimer<'a> {
    store: &'a RowCountStore,
    size: usize,
    repetitions: usize,
}

impl RowTimer<'_> {
    async fn measure<F: Future<Output = Result<(), String>>>(
        &mut self,
        operation: impl Fn(usize) -> F,
    ) -> Result<GrowthPoint, String> {
        self.store.rows.store(0, Ordering::Relaxed);
        let mut times = Vec::new();
        for at in 0..self.repetitions {
            let begun = Instant::now();
            operation(at).await?;
            times.push(begun.elapsed());
        }
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        let rows = self.store.rows.load(Ordering::Relaxed);
        let count = rows as f64 / self.repetitions.max(1) as f64;
        Ok(GrowthPoint { size: self.size, micros: median.as_secs_f64() * 1e6, count })
    }
}

#[derive(Debug)]
struct FixedClock;

impl Clock for FixedClock {
    fn wall_now(&self) -> WallTime {
        NOW
    }
    fn monotonic_now(&self) -> MonotonicTime {
        MonotonicTime(Duration::ZERO)
    }
}

/// A store in memory that counts the rows that are read and written.
#[derive(Debug, Default)]
struct RowCountStore {
    inner: MemoryStore,
    rows: AtomicUsize,
}

impl RowCountStore {
    fn count_rows(&self, rows: usize) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }
}

impl Store for RowCountStore {
    fn get_value<'a>(
        &'a self,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<VersionedValue>, StoreError>> {
        self.count_rows(1);
        self.inner.get_value(key)
    }

    fn put_value<'a>(
        &'a self,
        key: &'a str,
        expect: WritePrecondition,
        bytes: Option<Bytes>,
    ) -> BoxFuture<'a, Result<Version, StoreError>> {
        self.count_rows(1);
        self.inner.put_value(key, expect, bytes)
    }

    fn scan_prefix<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<VersionedValue>, StoreError>> {
        Box::pin(async move {
            let rows = self.inner.scan_prefix(prefix, after, limit).await?;
            self.count_rows(rows.len());
            Ok(rows)
        })
    }

    fn current_version(&self) -> BoxFuture<'_, Result<Version, StoreError>> {
        self.inner.current_version()
    }

    fn changes_since(
        &self,
        since: Version,
    ) -> BoxFuture<'_, Result<Vec<VersionedValue>, StoreError>> {
        Box::pin(async move {
            let rows = self.inner.changes_since(since).await?;
            self.count_rows(rows.len());
            Ok(rows)
        })
    }
}
