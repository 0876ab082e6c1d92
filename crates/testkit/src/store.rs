//! A store wrapper that counts requests, and fails or hangs on request.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use tool::store::WritePrecondition;
use tool::{BoxFuture, Store, StoreError, Version, VersionedValue};

/// A store with fault injection.
#[derive(Debug)]
pub struct FaultyStore {
    inner: Box<dyn Store>,
    is_down: AtomicBool,
    is_silent: AtomicBool,
    /// The number of writes before all later ones fail; `None` if none fails.
    writes_left: Mutex<Option<usize>>,
    /// The number of gets, puts, scans and change requests.
    requests: [AtomicUsize; 4],
    answered_change_requests: AtomicUsize,
    /// Row counts by kind, which is the key prefix before the first `/`.
    rows: Mutex<HashMap<String, RowCount>>,
}

/// The rows of one kind that were read.
#[derive(Debug, Default, Clone, Copy)]
struct RowCount {
    /// The count since the last query.
    rows_read: usize,
    /// The most rows of one scan.
    largest_page: usize,
}

/// The kind of a store request, as an index of the counters.
#[derive(Debug, Clone, Copy)]
enum StoreRequest {
    Get,
    Put,
    Scan,
    News,
}

impl FaultyStore {
    /// Wraps a store without faults.
    pub fn new(inner: impl Store + 'static) -> Self {
        Self {
            inner: Box::new(inner),
            is_down: AtomicBool::new(false),
            is_silent: AtomicBool::new(false),
            writes_left: Mutex::default(),
            requests: Default::default(),
            answered_change_requests: AtomicUsize::new(0),
            rows: Mutex::default(),
        }
    }

    /// The wrapped store, whose requests are not counted.
    pub fn inner_store(&self) -> &dyn Store {
        self.inner.as_ref()
    }

    /// Makes all requests fail, or succeed again.
    pub fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::SeqCst);
    }

    /// Makes all requests hang.
    pub fn hang_requests(&self) {
        self.is_silent.store(true, Ordering::SeqCst);
    }

    /// Makes each write fail after this number of writes; `None` disables it.
    pub fn fail_writes_after(&self, writes: Option<usize>) {
        *self.writes_left.lock().unwrap_or_else(PoisonError::into_inner) = writes;
    }

    /// Takes the number of gets, puts, scans and change requests since the last call.
    pub fn take_requests(&self) -> [usize; 4] {
        self.requests.each_ref().map(|count| count.swap(0, Ordering::SeqCst))
    }

    /// The number of answered change requests.
    pub fn answered_news(&self) -> usize {
        self.answered_change_requests.load(Ordering::SeqCst)
    }

    /// Takes the number of rows of this kind that were read since the last call.
    pub fn take_rows_read(&self, kind: &str) -> usize {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.get_mut(kind).map_or(0, |count| std::mem::take(&mut count.rows_read))
    }

    /// The most rows of this kind in one scan.
    pub fn largest_page(&self, kind: &str) -> usize {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.get(kind).map_or(0, |count| count.largest_page)
    }

    async fn admit_request(&self, request: StoreRequest) -> Result<(), StoreError> {
        if let Some(count) = self.requests.get(request as usize) {
            count.fetch_add(1, Ordering::SeqCst);
        }
        if self.is_silent.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        let is_down = self.is_down.load(Ordering::SeqCst);
        if is_down || (matches!(request, StoreRequest::Put) && !self.has_good_write()) {
            return Err(StoreError::Unavailable("down".to_owned()));
        }
        Ok(())
    }

    fn has_good_write(&self) -> bool {
        let mut left = self.writes_left.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(writes) = left.as_mut() else { return true };
        let is_good = *writes > 0;
        *writes = writes.saturating_sub(1);
        is_good
    }

    fn count_rows(&self, rows: &[VersionedValue], is_page: bool) {
        let mut counts = HashMap::<&str, usize>::new();
        for row in rows {
            *counts.entry(row.key.split('/').next().unwrap_or_default()).or_default() += 1;
        }
        let mut all = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        for (kind, read) in counts {
            let count = all.entry(kind.to_owned()).or_default();
            count.rows_read += read;
            count.largest_page = count.largest_page.max(if is_page { read } else { 0 });
        }
    }
}

impl Store for FaultyStore {
    fn get_value<'a>(
        &'a self,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<VersionedValue>, StoreError>> {
        Box::pin(async move {
            self.admit_request(StoreRequest::Get).await?;
            let row = self.inner.get_value(key).await?;
            self.count_rows(row.as_slice(), false);
            Ok(row)
        })
    }

    fn put_value<'a>(
        &'a self,
        key: &'a str,
        expect: WritePrecondition,
        bytes: Option<Bytes>,
    ) -> BoxFuture<'a, Result<Version, StoreError>> {
        Box::pin(async move {
            self.admit_request(StoreRequest::Put).await?;
            self.inner.put_value(key, expect, bytes).await
        })
    }

    fn scan_prefix<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<VersionedValue>, StoreError>> {
        Box::pin(async move {
            self.admit_request(StoreRequest::Scan).await?;
            let rows = self.inner.scan_prefix(prefix, after, limit).await?;
            self.count_rows(&rows, true);
            Ok(rows)
        })
    }

    fn current_version(&self) -> BoxFuture<'_, Result<Version, StoreError>> {
        Box::pin(async move {
            self.admit_request(StoreRequest::News).await?;
            self.inner.current_version().await
        })
    }

    fn changes_since(
        &self,
        since: Version,
    ) -> BoxFuture<'_, Result<Vec<VersionedValue>, StoreError>> {
        Box::pin(async move {
            self.admit_request(StoreRequest::News).await?;
            let news = self.inner.changes_since(since).await;
            self.answered_change_requests.fetch_add(1, Ordering::SeqCst);
            news
        })
    }
}
