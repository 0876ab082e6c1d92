//! The rows of the database with the MACs that show which of them were written through Toolkeep.
//! Runs on the store's own thread.

use std::iter::Peekable;
use std::sync::Arc;

use bytes::Bytes;
use rusqlite::Connection;
use tokio::sync::watch;
use tool::store::Expect;
use tool::{StoreError, Version, Versioned};

use super::sql::{self, Error, Put};
use crate::bounds::SCAN_ROWS;
use crate::row_macs::{MacFile, Opened, REJECTED, RejectedRow, Rejection, RowMacs, is_protected};

/// Maximum number of rejected rows that are reported by name.
const REPORTED: usize = 1_000;

/// Rejected rows by key, shared with their reporters.
pub(super) type Rejected = Arc<watch::Sender<Vec<RejectedRow>>>;

/// Rows of an open file.
pub(super) struct Table {
    connection: Connection,
    macs: Option<RowMacs>,
    rejected: Rejected,
}

impl Table {
    /// Creates a table that accepts all rows.
    pub(super) fn plain(connection: Connection, rejected: Rejected) -> Self {
        Self { connection, macs: None, rejected }
    }

    /// Creates a table that accepts rows with a MAC in `file`. Without that file all rows are
    /// adopted.
    pub(super) fn protected(
        connection: Connection,
        rejected: Rejected,
        file: &MacFile,
    ) -> Result<Self, Error> {
        let mut table = Self { connection, macs: None, rejected };
        let macs = match RowMacs::read(file).map_err(Error::Store)? {
            Opened::Macs(mut macs) => {
                table.settle(&mut macs)?;
                macs
            }
            Opened::New(mut macs) => {
                let mut rows = 0_usize;
                sql::each_protected(&table.connection, |key, bytes| {
                    macs.adopt(key, bytes);
                    rows += 1;
                })?;
                tracing::info!(
                    rows, path = %file.path.display(),
                    "there were no row MACs of this record.key: all rows of the store are adopted"
                );
                macs
            }
        };
        table.macs = Some(macs);
        table.look_at_all()?;
        if let Some(macs) = &mut table.macs {
            macs.resume().map_err(Error::Store)?;
        }
        Ok(table)
    }

    /// Finds the rejected rows of a file without a writer.
    pub(super) fn rejected_in(
        connection: Connection,
        file: &MacFile,
    ) -> Result<Vec<RejectedRow>, Error> {
        let mut table = Self { connection, macs: None, rejected: Rejected::default() };
        let Opened::Macs(mut macs) = RowMacs::read(file).map_err(Error::Store)? else {
            return Ok(Vec::new());
        };
        table.settle(&mut macs)?;
        table.macs = Some(macs);
        table.look_at_all()?;
        Ok(table.rejected.borrow().clone())
    }

    pub(super) fn get(&self, key: &str) -> Result<Option<Versioned>, Error> {
        let row = sql::get(&self.connection, key)?;
        let Some(macs) = self.macs.as_ref().filter(|_| is_protected(key)) else { return Ok(row) };
        let rejection = macs.rejection(key, row.as_ref().map(|row| row.bytes.as_ref()));
        Ok(match rejection {
            None => row,
            Some(rejection) => {
                let version = row.map_or(Version(0), |row| row.version);
                Some(self.reject(key.to_owned(), version, rejection))
            }
        })
    }

    pub(super) fn scan(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Versioned>, Error> {
        let rows = sql::scan(&self.connection, prefix, after, limit)?;
        let Some(macs) = &self.macs else { return Ok(rows) };
        let limit = limit.min(SCAN_ROWS);
        if limit == 0 {
            return Ok(rows);
        }
        // A full page ends with its last row; otherwise it contains all expected keys.
        let last = (rows.len() >= limit).then(|| rows.last().map(|row| row.key.clone())).flatten();
        let expected = macs.keys(prefix, after);
        let expected = expected.take_while(|key| last.as_deref().is_none_or(|last| *key <= last));
        let mut found = self.merged(macs, rows, expected.peekable());
        found.truncate(limit);
        Ok(found)
    }

    /// Merges rows and expected keys, both ordered; missing rows are inserted in place.
    fn merged<'a>(
        &self,
        macs: &RowMacs,
        rows: Vec<Versioned>,
        mut expected: Peekable<impl Iterator<Item = &'a str>>,
    ) -> Vec<Versioned> {
        let mut found = Vec::with_capacity(rows.len());
        let missing = |key: &str| self.reject(key.to_owned(), Version(0), Rejection::Removed);
        for row in rows {
            while let Some(key) = expected.next_if(|key| *key < row.key.as_str()) {
                found.push(missing(key));
            }
            let _same = expected.next_if(|key| *key == row.key);
            found.push(self.checked(macs, row));
        }
        found.extend(expected.map(missing));
        found
    }

    fn checked(&self, macs: &RowMacs, row: Versioned) -> Versioned {
        if !is_protected(&row.key) {
            return row;
        }
        let bytes = (!row.removed).then_some(row.bytes.as_ref());
        match macs.rejection(&row.key, bytes) {
            None => row,
            Some(rejection) => self.reject(row.key, row.version, rejection),
        }
    }

    pub(super) fn news(&mut self, since: Version) -> Result<Vec<Versioned>, Error> {
        let rows = sql::news(&mut self.connection, since)?;
        let Some(macs) = &self.macs else { return Ok(rows) };
        Ok(rows.into_iter().map(|row| self.checked(macs, row)).collect())
    }

    /// Rejects a row and returns what readers get instead.
    fn reject(&self, key: String, version: Version, rejection: Rejection) -> Versioned {
        self.rejected.send_if_modified(|all| {
            let at = all.binary_search_by(|row| row.key.as_str().cmp(&key));
            let (Err(at), true) = (at, all.len() < REPORTED) else { return false };
            tracing::error!(
                key,
                "a row of the store was {rejection} outside of Toolkeep and does not count; \
                 `toolkeep store list` shows all such rows"
            );
            all.insert(at, RejectedRow { key: key.clone(), rejection });
            true
        });
        Versioned { key, version, bytes: Bytes::from_static(REJECTED), removed: false }
    }

    /// Clears rejections of rows that were written through Toolkeep again.
    fn unreject(&self, keys: impl IntoIterator<Item = impl AsRef<str>>) {
        self.rejected.send_if_modified(|all| {
            let before = all.len();
            if before > 0 {
                for key in keys {
                    all.retain(|row| row.key != key.as_ref());
                }
            }
            all.len() < before
        });
    }

    fn look_at_all(&self) -> Result<(), Error> {
        let Some(macs) = &self.macs else { return Ok(()) };
        let mut expected = macs.keys("", None).peekable();
        let removed = |key: &str| drop(self.reject(key.to_owned(), Version(0), Rejection::Removed));
        sql::each_protected(&self.connection, |key, bytes| {
            while let Some(key) = expected.next_if(|expected| *expected < key) {
                removed(key);
            }
            let _same = expected.next_if(|expected| *expected == key);
            if let Some(rejection) = macs.rejection(key, Some(bytes)) {
                drop(self.reject(key.to_owned(), Version(0), rejection));
            }
        })?;
        expected.for_each(removed);
        Ok(())
    }

    fn settle(&self, macs: &mut RowMacs) -> Result<(), Error> {
        macs.settle(|key| {
            let row = sql::get(&self.connection, key)?;
            Ok(row.map(|row| row.bytes.to_vec()))
        })
    }

    /// Writes a batch in order, in one transaction.
    pub(super) fn put_all(&mut self, puts: &[Put]) -> Result<Vec<Result<Version, Error>>, Error> {
        let Some(mut macs) = self.macs.take() else {
            let prepared =
                sql::prepare_all(&mut self.connection, puts, |put, _, _| Ok(put.expect))?;
            prepared.transaction.commit()?;
            return Ok(prepared.done);
        };
        let done = self.put_with(&mut macs, puts);
        self.macs = Some(macs);
        done
    }

    fn put_with(
        &mut self,
        macs: &mut RowMacs,
        puts: &[Put],
    ) -> Result<Vec<Result<Version, Error>>, Error> {
        self.ready(macs)?;
        let prepared = sql::prepare_all(&mut self.connection, puts, |put, stands, written| {
            expected(macs, put, (stands, written))
        });
        let sql::Prepared { transaction, done, written } = prepared?;
        let change = |put: &&Put| macs.change(&put.key, put.bytes.as_deref());
        macs.begin(written.iter().map(change).collect()).map_err(Error::Store)?;
        if let Err(error) = transaction.commit() {
            // If this fails, the next write retries it.
            drop(self.ready(macs));
            return Err(error.into());
        }
        macs.commit();
        self.unreject(written.iter().map(|put| &put.key));
        Ok(done)
    }

    /// Resolves a batch with unknown commit state, and prepares the MAC file.
    fn ready(&self, macs: &mut RowMacs) -> Result<(), Error> {
        if macs.is_unsettled() {
            self.settle(macs)?;
        }
        if macs.needs_rewrite() { macs.rewrite().map_err(Error::Store) } else { Ok(()) }
    }

    /// Accepts a rejected row as it is; returns whether it was rejected.
    pub(super) fn accept(&mut self, key: &str) -> Result<bool, Error> {
        let row = sql::get(&self.connection, key)?;
        let Some(mut macs) = self.macs.take() else { return Ok(false) };
        let bytes = row.as_ref().map(|row| row.bytes.as_ref());
        let done = match macs.rejection(key, bytes) {
            None => Ok(false),
            Some(_) => self.ready(&mut macs).and_then(|()| {
                macs.begin(vec![macs.change(key, bytes)]).map_err(Error::Store)?;
                macs.commit();
                Ok(true)
            }),
        };
        self.macs = Some(macs);
        self.unreject([key]);
        done
    }
}

/// Returns the effective precondition. A row that someone else removed still exists for others: a
/// reader that has version 0 of it may write it again, and nobody may create another.
fn expected(
    macs: &RowMacs,
    put: &Put,
    (stands, written): (Option<Version>, &[&Put]),
) -> Result<Expect, StoreError> {
    let is_removed = || {
        let earlier = written.iter().any(|earlier| earlier.key == put.key);
        stands.is_none() && macs.has(&put.key) && !earlier
    };
    match put.expect {
        Expect::Version(Version(0)) if is_removed() => Ok(Expect::Absent),
        Expect::Absent if is_removed() => Err(StoreError::Conflict { key: put.key.clone() }),
        expect => Ok(expect),
    }
}
