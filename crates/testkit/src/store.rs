//! A store wrapper that counts requests, and fails or hangs on request.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use tool::store::Expect;
use tool::{Boxed, Store, StoreError, Version, Versioned};

/// A store with fault injection.
#[derive(Debug)]
pub struct FaultyStore {
    inner: Box<dyn Store>,
    down: AtomicBool,
    silent: AtomicBool,
    /// The number of writes before all later ones fail; `None` if none fails.
    good_writes: Mutex<Option<usize>>,
    /// The number of gets, puts, scans and change requests.
    requests: [AtomicUsize; 4],
    answered_news: AtomicUsize,
    /// Row counts by kind, which is the key prefix before the first `/`.
    rows: Mutex<HashMap<String, RowCount>>,
}

/// The rows of one kind that were read.
#[derive(Debug, Default, Clone, Copy)]
struct RowCount {
    /// The count since the last query.
    read: usize,
    /// The most rows of one scan.
    largest_page: usize,
}

/// The kind of a store request, as an index of the counters.
#[derive(Debug, Clone, Copy)]
enum Request {
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
            down: AtomicBool::new(false),
            silent: AtomicBool::new(false),
            good_writes: Mutex::default(),
            requests: Default::default(),
            answered_news: AtomicUsize::new(0),
            rows: Mutex::default(),
        }
    }

    /// The wrapped store, whose requests are not counted.
    pub fn inner(&self) -> &dyn Store {
        self.inner.as_ref()
    }

    /// Makes all requests fail, or succeed again.
    pub fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    /// Makes all requests hang.
    pub fn fall_silent(&self) {
        self.silent.store(true, Ordering::SeqCst);
    }

    /// Makes each write fail after this number of writes; `None` disables it.
    pub fn fail_writes_after(&self, writes: Option<usize>) {
        *self.good_writes.lock().unwrap_or_else(PoisonError::into_inner) = writes;
    }

    /// Takes the number of gets, puts, scans and change requests since the last call.
    pub fn take_requests(&self) -> [usize; 4] {
        self.requests.each_ref().map(|count| count.swap(0, Ordering::SeqCst))
    }

    /// The number of answered change requests.
    pub fn answered_news(&self) -> usize {
        self.answered_news.load(Ordering::SeqCst)
    }

    /// Takes the number of rows of this kind that were read since the last call.
    pub fn take_rows_read(&self, kind: &str) -> usize {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.get_mut(kind).map_or(0, |count| std::mem::take(&mut count.read))
    }

    /// The most rows of this kind in one scan.
    pub fn largest_page(&self, kind: &str) -> usize {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.get(kind).map_or(0, |count| count.largest_page)
    }

    async fn admit(&self, request: Request) -> Result<(), StoreError> {
        if let Some(count) = self.requests.get(request as usize) {
            count.fetch_add(1, Ordering::SeqCst);
        }
        if self.silent.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        let is_down = self.down.load(Ordering::SeqCst);
        if is_down || (matches!(request, Request::Put) && !self.has_good_write()) {
            return Err(StoreError::Unavailable("down".to_owned()));
        }
        Ok(())
    }

    fn has_good_write(&self) -> bool {
        let mut left = self.good_writes.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(writes) = left.as_mut() else { return true };
        let is_good = *writes > 0;
        *writes = writes.saturating_sub(1);
        is_good
    }

    fn count_rows(&self, rows: &[Versioned], is_page: bool) {
        let mut counts = HashMap::<&str, usize>::new();
        for row in rows {
            *counts.entry(row.key.split('/').next().unwrap_or_default()).or_default() += 1;
        }
        let mut all = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        for (kind, read) in counts {
            let count = all.entry(kind.to_owned()).or_default();
            count.read += read;
            count.largest_page = count.largest_page.max(if is_page { read } else { 0 });
        }
    }
}

impl Store for FaultyStore {
    fn get<'a>(&'a self, key: &'a str) -> Boxed<'a, Result<Option<Versioned>, StoreError>> {
        Box::pin(async move {
            self.admit(Request::Get).await?;
            let row = self.inner.get(key).await?;
            self.count_rows(row.as_slice(), false);
            Ok(row)
        })
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        expect: Expect,
        bytes: Option<Bytes>,
    ) -> Boxed<'a, Result<Version, StoreError>> {
        Box::pin(async move {
            self.admit(Request::Put).await?;
            self.inner.put(key, expect, bytes).await
        })
    }

    fn scan<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> Boxed<'a, Result<Vec<Versioned>, StoreError>> {
        Box::pin(async move {
            self.admit(Request::Scan).await?;
            let rows = self.inner.scan(prefix, after, limit).await?;
            self.count_rows(&rows, true);
            Ok(rows)
        })
    }

    fn news(&self, since: Version) -> Boxed<'_, Result<Vec<Versioned>, StoreError>> {
        Box::pin(async move {
            self.admit(Request::News).await?;
            let news = self.inner.news(since).await;
            self.answered_news.fetch_add(1, Ordering::SeqCst);
            news
        })
    }
}
