//! The store in one SQLite file.
//!
//! One thread owns the connection and works through a bounded queue: no async thread ever waits for
//! the disk, and the process has only one writer. Each write is atomic and on disk before it is
//! confirmed (WAL, `synchronous = FULL`); concurrent writes are synced together.

mod file;
mod sql;
mod table;
mod turn;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use tool::store::Expect;
use tool::{Boxed, Store, StoreError, Version, Versioned};

use crate::bounds::{check_key, check_value};
use crate::row_macs::{MacFile, RejectedRow};
use table::{Rejected, Table};
use turn::{Answer, Job};

/// Number of requests that may queue before their senders wait.
const QUEUE: usize = 256;

/// Stores everything in one file with mode 0600.
#[derive(Debug)]
pub struct SqliteStore {
    path: Arc<Path>,
    jobs: mpsc::Sender<Job>,
    rejected: Rejected,
}

impl SqliteStore {
    /// Opens the file, or creates it; its folder must exist. Blocks on the disk.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] with the file and the reason: no permission, no such folder, not
    /// an SQLite file, one of another program, or of a newer Toolkeep.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path: Arc<Path> = path.as_ref().into();
        let rejected = Rejected::default();
        let table = Table::plain(file::open(&path)?, Arc::clone(&rejected));
        Self::with(path, table, rejected)
    }

    /// Opens the file and accepts a row only if its MAC is in `macs`: a row that was written,
    /// removed or rolled back otherwise reads as a damaged record. If `macs` does not exist yet, or
    /// belongs to another secret, all rows are adopted. Only one process at a time may open a store
    /// this way.
    ///
    /// # Errors
    /// As [`SqliteStore::open`], and if the MACs cannot be read or written.
    pub fn open_protected(path: impl AsRef<Path>, macs: &MacFile) -> Result<Self, StoreError> {
        let path: Arc<Path> = path.as_ref().into();
        let (connection, rejected) = (file::open(&path)?, Rejected::default());
        let table = Table::protected(connection, Arc::clone(&rejected), macs);
        let table = table.map_err(|error| told(&path, error))?;
        Self::with(path, table, rejected)
    }

    fn with(path: Arc<Path>, mut table: Table, rejected: Rejected) -> Result<Self, StoreError> {
        let (jobs, mut queue) = mpsc::channel(QUEUE);
        let work = move || turn::work(&mut table, &mut queue);
        let thread = std::thread::Builder::new().name("store".to_owned()).spawn(work);
        thread.map_err(|error| file::unavailable(&path, &error))?;
        Ok(Self { path, jobs, rejected })
    }

    /// Subscribes to the rejected rows found so far: all at the start, and those read since. At
    /// most 1,000.
    pub fn rejected(&self) -> watch::Receiver<Vec<RejectedRow>> {
        self.rejected.subscribe()
    }

    /// Accepts a rejected row as it is, or its absence; returns whether there was one.
    ///
    /// # Errors
    /// If the file or its MACs cannot be used.
    pub async fn accept(&self, key: &str) -> Result<bool, StoreError> {
        let key = key.to_owned();
        self.run(move |table| table.accept(&key)).await
    }

    /// Lists the rows that would be rejected, without writing anything. Blocks on the disk.
    ///
    /// # Errors
    /// As [`SqliteStore::check`], and if the MACs cannot be read.
    pub fn check_rows(
        path: impl AsRef<Path>,
        macs: &MacFile,
    ) -> Result<Vec<RejectedRow>, StoreError> {
        let path = path.as_ref();
        Table::rejected_in(file::open_to_read(path)?, macs).map_err(|error| told(path, error))
    }

    /// Reads the rows with `prefix`, at most one scan page, with their values. Works beside the
    /// process that has the file open, and changes nothing. Blocks on the disk.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read_rows(
        path: impl AsRef<Path>,
        prefix: &str,
    ) -> Result<Vec<(String, Bytes)>, StoreError> {
        let path = path.as_ref();
        let connection = file::open_to_read(path)?;
        let rows = sql::scan(&connection, prefix, None, usize::MAX);
        let rows = rows.map_err(|error| told(path, error))?;
        Ok(rows.into_iter().map(|row| (row.key, row.bytes)).collect())
    }

    /// Checks that the file is usable and intact, without changing it. Blocks on the disk while all
    /// of it is read.
    ///
    /// # Errors
    /// As [`SqliteStore::open`], and if the file is damaged.
    pub fn check(path: impl AsRef<Path>) -> Result<(), StoreError> {
        file::check(path.as_ref())
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `work` on the store's thread.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Table) -> Result<T, sql::Error> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job = Job::Other(Box::new(move |table| {
            // If this fails nobody waits for the reply; the work is done all the same.
            let _unheard = reply.send(work(table));
        }));
        self.answered(job, answer).await
    }

    async fn answered<T>(&self, job: Job, answer: Answer<T>) -> Result<T, StoreError> {
        let gone = || file::unavailable(&self.path, &"its thread has ended");
        self.jobs.send(job).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?.map_err(|error| told(&self.path, error))
    }

    async fn put_row(
        &self,
        key: String,
        expect: Expect,
        bytes: Option<Bytes>,
    ) -> Result<Version, StoreError> {
        check_key(&key)?;
        check_value(&key, bytes.as_deref())?;
        let (reply, answer) = oneshot::channel();
        self.answered(Job::Put(sql::Put { key, expect, bytes }, reply), answer).await
    }
}

fn told(path: &Path, error: sql::Error) -> StoreError {
    match error {
        sql::Error::Store(error) => error,
        sql::Error::Sqlite(error) => file::unavailable(path, &error),
    }
}

impl Store for SqliteStore {
    fn get<'a>(&'a self, key: &'a str) -> Boxed<'a, Result<Option<Versioned>, StoreError>> {
        let key = key.to_owned();
        Box::pin(self.run(move |table| table.get(&key)))
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        expect: Expect,
        bytes: Option<Bytes>,
    ) -> Boxed<'a, Result<Version, StoreError>> {
        Box::pin(self.put_row(key.to_owned(), expect, bytes))
    }

    fn scan<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> Boxed<'a, Result<Vec<Versioned>, StoreError>> {
        let (prefix, after) = (prefix.to_owned(), after.map(str::to_owned));
        Box::pin(self.run(move |table| table.scan(&prefix, after.as_deref(), limit)))
    }

    fn news(&self, since: Version) -> Boxed<'_, Result<Vec<Versioned>, StoreError>> {
        Box::pin(self.run(move |table| table.news(since)))
    }
}
