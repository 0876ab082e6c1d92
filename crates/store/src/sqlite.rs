//! The store in one SQLite file.
//!
//! One thread owns the connection and does the work in turn, fed by a bounded queue: no async thread
//! ever waits for the disk, and there is never more than one writer in the process. Each write is whole
//! or not at all, and on the disk before it is answered (WAL, `synchronous = FULL`); those that wait
//! together are synced together.

mod file;
mod sql;
mod turn;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};
use tool::store::Expect;
use tool::{Boxed, Store, StoreError, Version, Versioned};

use crate::bounds::{check_key, check_value};
use turn::{Answer, Job};

/// How many requests may wait for the thread before their senders do.
const QUEUE: usize = 256;

/// Keeps everything in one file, mode 0600.
#[derive(Debug)]
pub struct SqliteStore {
    path: Arc<Path>,
    jobs: mpsc::Sender<Job>,
}

impl SqliteStore {
    /// Opens the file, or makes it where there is none; its folder must be there. Blocks on the disk.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] with the file and the reason: no permission, no such folder, no
    /// SQLite file, another program's, or one that a newer Toolkeep wrote.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path: Arc<Path> = path.as_ref().into();
        let mut connection = file::open(&path)?;
        let (jobs, mut queue) = mpsc::channel(QUEUE);
        let work = move || turn::work(&mut connection, &mut queue);
        let thread = std::thread::Builder::new().name("store".to_owned()).spawn(work);
        thread.map_err(|error| file::unavailable(&path, &error))?;
        Ok(Self { path, jobs })
    }

    /// Looks whether the file could be used and is whole, and changes nothing. Blocks on the disk, for
    /// as long as reading all of it takes.
    ///
    /// # Errors
    /// As [`SqliteStore::open`], and where the file is damaged.
    pub fn check(path: impl AsRef<Path>) -> Result<(), StoreError> {
        file::check(path.as_ref())
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Does `work` on the thread.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, sql::Error> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job = Job::Other(Box::new(move |connection| {
            // Nobody waits for the answer any more where this fails; the work is done all the same.
            let _unheard = reply.send(work(connection));
        }));
        self.answered(job, answer).await
    }

    async fn answered<T>(&self, job: Job, answer: Answer<T>) -> Result<T, StoreError> {
        let gone = || file::unavailable(&self.path, &"its thread has ended");
        self.jobs.send(job).await.map_err(|_| gone())?;
        match answer.await.map_err(|_| gone())? {
            Ok(value) => Ok(value),
            Err(sql::Error::Store(error)) => Err(error),
            Err(sql::Error::Sqlite(error)) => Err(file::unavailable(&self.path, &error)),
        }
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

impl Store for SqliteStore {
    fn get<'a>(&'a self, key: &'a str) -> Boxed<'a, Result<Option<Versioned>, StoreError>> {
        let key = key.to_owned();
        Box::pin(self.run(move |connection| sql::get(connection, &key)))
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
        Box::pin(self.run(move |c| sql::scan(c, &prefix, after.as_deref(), limit)))
    }

    fn news(&self, since: Version) -> Boxed<'_, Result<Vec<Versioned>, StoreError>> {
        Box::pin(self.run(move |connection| sql::news(connection, since)))
    }
}
