//! The store in one SQLite file.
//!
//! One thread owns the connection and works through a bounded queue: no async thread ever waits for
//! the disk, and the process has only one writer. Each write is atomic and on disk before it is
//! confirmed (WAL, `synchronous = FULL`); concurrent writes are synced together.

mod database_file;
mod row_table;
mod statements;
mod worker;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use tool::store::WritePrecondition;
use tool::{BoxFuture, FormatSupport, Store, StoreError, Version, VersionedValue};

use crate::row_macs::{MacFile, RejectedRow};
use crate::store_limits::{check_key, check_value};
use row_table::{RejectedRows, RowTable};
use worker::{ReplyReceiver, WorkerJob};

/// Number of requests that may queue before their senders wait.
const QUEUE_CAPACITY: usize = 256;

/// Stores everything in one file with mode 0600.
#[derive(Debug)]
pub struct SqliteStore {
    path: Arc<Path>,
    jobs: mpsc::Sender<WorkerJob>,
    rejected: RejectedRows,
}

impl SqliteStore {
    /// Opens the file, or creates it; its folder must exist. Blocks on the disk.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] with the file and the reason: no permission, no such folder, not
    /// an SQLite file, one of another program, or of a newer Toolkeep.
    pub fn open_file(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path: Arc<Path> = path.as_ref().into();
        let rejected = RejectedRows::default();
        let table = RowTable::new_unprotected(
            database_file::open_read_write(&path)?,
            Arc::clone(&rejected),
        );
        Self::start_worker(path, table, rejected)
    }

    /// Opens the file and accepts a row only if its MAC is in `macs`: a row that was written,
    /// removed or rolled back otherwise reads as a damaged record. If `macs` does not exist yet, or
    /// belongs to another secret, all rows are adopted. Only one process at a time may open a store
    /// this way.
    ///
    /// # Errors
    /// As [`SqliteStore::open_file`], and if the MACs cannot be read or written.
    pub fn open_protected(path: impl AsRef<Path>, macs: &MacFile) -> Result<Self, StoreError> {
        let path: Arc<Path> = path.as_ref().into();
        let (connection, rejected) =
            (database_file::open_read_write(&path)?, RejectedRows::default());
        let table = RowTable::new_protected(connection, Arc::clone(&rejected), macs);
        let table = table.map_err(|error| to_store_error(&path, error))?;
        Self::start_worker(path, table, rejected)
    }

    fn start_worker(
        path: Arc<Path>,
        mut table: RowTable,
        rejected: RejectedRows,
    ) -> Result<Self, StoreError> {
        let (jobs, mut queue) = mpsc::channel(QUEUE_CAPACITY);
        let work = move || worker::run_worker(&mut table, &mut queue);
        let thread = std::thread::Builder::new().name("store".to_owned()).spawn(work);
        thread.map_err(|error| database_file::file_unavailable(&path, &error))?;
        Ok(Self { path, jobs, rejected })
    }

    /// Subscribes to the rejected rows found so far: all at the start, and those read since. At
    /// most 1,000.
    pub fn rejected_rows(&self) -> watch::Receiver<Vec<RejectedRow>> {
        self.rejected.subscribe()
    }

    /// Accepts a rejected row as it is, or its absence; returns whether there was one.
    ///
    /// # Errors
    /// If the file or its MACs cannot be used.
    pub async fn accept_row(&self, key: &str) -> Result<bool, StoreError> {
        let key = key.to_owned();
        self.run_query(move |table| table.accept_row(&key)).await
    }

    /// Lists the rows that would be rejected, without writing anything. Blocks on the disk.
    ///
    /// # Errors
    /// As [`SqliteStore::check_file`], and if the MACs cannot be read.
    pub fn check_rows(
        path: impl AsRef<Path>,
        macs: &MacFile,
    ) -> Result<Vec<RejectedRow>, StoreError> {
        let path = path.as_ref();
        RowTable::find_rejected(database_file::open_read_only(path)?, macs)
            .map_err(|error| to_store_error(path, error))
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
        let connection = database_file::open_read_only(path)?;
        let rows = statements::scan_rows(&connection, prefix, None, usize::MAX);
        let rows = rows.map_err(|error| to_store_error(path, error))?;
        Ok(rows.into_iter().map(|row| (row.key, row.bytes)).collect())
    }

    /// Versions of the file that this program reads and writes.
    pub const FORMAT: FormatSupport = database_file::FORMAT;

    /// Reads the format version of the file, which may be newer than this program supports; `None`
    /// if the file is empty. Works beside the process that has the file open, and changes nothing.
    /// Blocks on the disk.
    ///
    /// # Errors
    /// If the file cannot be read, or another program created it.
    pub fn read_format(path: impl AsRef<Path>) -> Result<Option<u32>, StoreError> {
        database_file::read_format(path.as_ref())
    }

    /// Checks that the file is usable and intact, without changing it. Blocks on the disk while all
    /// of it is read.
    ///
    /// # Errors
    /// As [`SqliteStore::open_file`], and if the file is damaged.
    pub fn check_file(path: impl AsRef<Path>) -> Result<(), StoreError> {
        database_file::check_integrity(path.as_ref())
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `work` on the store's thread.
    async fn run_query<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut RowTable) -> Result<T, statements::StatementError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job = WorkerJob::Query(Box::new(move |table| {
            // If this fails, no caller waits for the reply, but the work is done.
            let _unheard = reply.send(work(table));
        }));
        self.submit_job(job, answer).await
    }

    async fn submit_job<T>(
        &self,
        job: WorkerJob,
        answer: ReplyReceiver<T>,
    ) -> Result<T, StoreError> {
        let gone = || database_file::file_unavailable(&self.path, &"its thread has ended");
        self.jobs.send(job).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?.map_err(|error| to_store_error(&self.path, error))
    }

    async fn submit_write(
        &self,
        key: String,
        expect: WritePrecondition,
        bytes: Option<Bytes>,
    ) -> Result<Version, StoreError> {
        check_key(&key)?;
        check_value(&key, bytes.as_deref())?;
        let (reply, answer) = oneshot::channel();
        self.submit_job(
            WorkerJob::Write(statements::WriteRequest { key, expect, bytes }, reply),
            answer,
        )
        .await
    }
}

fn to_store_error(path: &Path, error: statements::StatementError) -> StoreError {
    match error {
        statements::StatementError::Store(error) => error,
        statements::StatementError::Sqlite(error) => database_file::file_unavailable(path, &error),
    }
}

impl Store for SqliteStore {
    fn get_value<'a>(
        &'a self,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<VersionedValue>, StoreError>> {
        let key = key.to_owned();
        Box::pin(self.run_query(move |table| table.get_row(&key)))
    }

    fn put_value<'a>(
        &'a self,
        key: &'a str,
        expect: WritePrecondition,
        bytes: Option<Bytes>,
    ) -> BoxFuture<'a, Result<Version, StoreError>> {
        Box::pin(self.submit_write(key.to_owned(), expect, bytes))
    }

    fn scan_prefix<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<VersionedValue>, StoreError>> {
        let (prefix, after) = (prefix.to_owned(), after.map(str::to_owned));
        Box::pin(self.run_query(move |table| table.scan_rows(&prefix, after.as_deref(), limit)))
    }

    fn current_version(&self) -> BoxFuture<'_, Result<Version, StoreError>> {
        Box::pin(self.run_query(|table| table.current_version()))
    }

    fn changes_since(
        &self,
        since: Version,
    ) -> BoxFuture<'_, Result<Vec<VersionedValue>, StoreError>> {
        Box::pin(self.run_query(move |table| table.changes_since(since)))
    }
}
