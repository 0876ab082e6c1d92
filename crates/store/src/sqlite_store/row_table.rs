//! The rows of the database with the MACs that show which of them were written through Toolkeep.
//! Runs on the store's own thread.

use std::iter::Peekable;
use std::sync::Arc;

use bytes::Bytes;
use rusqlite::Connection;
use tokio::sync::watch;
use tool::store::WritePrecondition;
use tool::{StoreError, Version, VersionedValue};

use super::statements::{self, StatementError, WriteRequest};
use crate::row_macs::{MacFile, OpenedMacs, REJECTED_VALUE, RejectedRow, RowMacs, RowRejection};
use crate::store_limits::MAX_SCAN_ROWS;

/// Maximum number of rejected rows that are reported by name.
const MAX_REPORTED_ROWS: usize = 1_000;

/// Rejected rows by key, shared with their reporters.
pub(super) type RejectedRows = Arc<watch::Sender<Vec<RejectedRow>>>;

/// Rows of an open file.
pub(super) struct RowTable {
    connection: Connection,
    macs: Option<RowMacs>,
    rejected: RejectedRows,
}

impl RowTable {
    /// Creates a table that accepts all rows.
    pub(super) fn new_unprotected(connection: Connection, rejected: RejectedRows) -> Self {
        Self { connection, macs: None, rejected }
    }

    /// Creates a table that accepts rows with a MAC in `file`. Without that file all rows are
    /// adopted.
    pub(super) fn new_protected(
        connection: Connection,
        rejected: RejectedRows,
        file: &MacFile,
    ) -> Result<Self, StatementError> {
        let mut table = Self { connection, macs: None, rejected };
        let macs = match RowMacs::open_file(file).map_err(StatementError::Store)? {
            OpenedMacs::Existing(mut macs) => {
                table.resolve_pending(&mut macs)?;
                macs
            }
            OpenedMacs::New(mut macs) => {
                let mut rows = 0_usize;
                statements::visit_protected_rows(&table.connection, |key, bytes| {
                    macs.adopt_row(key, bytes);
                    rows += 1;
                })?;
                tracing::info!(
                    rows, path = %file.path.display(),
                    "no row MACs for this record.key exist: all rows of the store are accepted"
                );
                macs
            }
        };
        table.macs = Some(macs);
        table.check_all_rows()?;
        if let Some(macs) = &mut table.macs {
            macs.resume_file().map_err(StatementError::Store)?;
        }
        Ok(table)
    }

    /// Finds the rejected rows of a file without a writer.
    pub(super) fn find_rejected(
        connection: Connection,
        file: &MacFile,
    ) -> Result<Vec<RejectedRow>, StatementError> {
        let mut table = Self { connection, macs: None, rejected: RejectedRows::default() };
        let OpenedMacs::Existing(mut macs) =
            RowMacs::open_file(file).map_err(StatementError::Store)?
        else {
            return Ok(Vec::new());
        };
        table.resolve_pending(&mut macs)?;
        table.macs = Some(macs);
        table.check_all_rows()?;
        Ok(table.rejected.borrow().clone())
    }

    pub(super) fn get_row(&self, key: &str) -> Result<Option<VersionedValue>, StatementError> {
        let row = statements::get_row(&self.connection, key)?;
        let Some(macs) = &self.macs else { return Ok(row) };
        let rejection = macs.rejection_of(key, row.as_ref().map(|row| row.bytes.as_ref()));
        Ok(match rejection {
            None => row,
            Some(rejection) => {
                let version = row.map_or(Version(0), |row| row.version);
                Some(self.reject_row(key.to_owned(), version, rejection))
            }
        })
    }

    pub(super) fn scan_rows(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<VersionedValue>, StatementError> {
        let rows = statements::scan_rows(&self.connection, prefix, after, limit)?;
        let Some(macs) = &self.macs else { return Ok(rows) };
        let limit = limit.min(MAX_SCAN_ROWS);
        if limit == 0 {
            return Ok(rows);
        }
        // A full page ends with its last row; otherwise it contains all expected keys.
        let last = (rows.len() >= limit).then(|| rows.last().map(|row| row.key.clone())).flatten();
        let expected = macs.expected_keys(prefix, after);
        let expected = expected.take_while(|key| last.as_deref().is_none_or(|last| *key <= last));
        let mut found = self.merge_expected(macs, rows, expected.peekable());
        found.truncate(limit);
        Ok(found)
    }

    /// Merges rows and expected keys, both ordered; missing rows are inserted in place.
    fn merge_expected<'a>(
        &self,
        macs: &RowMacs,
        rows: Vec<VersionedValue>,
        mut expected: Peekable<impl Iterator<Item = &'a str>>,
    ) -> Vec<VersionedValue> {
        let mut found = Vec::with_capacity(rows.len());
        let missing =
            |key: &str| self.reject_row(key.to_owned(), Version(0), RowRejection::Removed);
        for row in rows {
            while let Some(key) = expected.next_if(|key| *key < row.key.as_str()) {
                found.push(missing(key));
            }
            let _same = expected.next_if(|key| *key == row.key);
            found.push(self.check_row(macs, row));
        }
        found.extend(expected.map(missing));
        found
    }

    fn check_row(&self, macs: &RowMacs, row: VersionedValue) -> VersionedValue {
        let bytes = (!row.is_removal).then_some(row.bytes.as_ref());
        match macs.rejection_of(&row.key, bytes) {
            None => row,
            Some(rejection) => self.reject_row(row.key, row.version, rejection),
        }
    }

    pub(super) fn current_version(&self) -> Result<Version, StatementError> {
        statements::current_version(&self.connection)
    }

    pub(super) fn changes_since(
        &mut self,
        since: Version,
    ) -> Result<Vec<VersionedValue>, StatementError> {
        let rows = statements::changes_since(&mut self.connection, since)?;
        let Some(macs) = &self.macs else { return Ok(rows) };
        Ok(rows.into_iter().map(|row| self.check_row(macs, row)).collect())
    }

    /// Rejects a row and returns what readers get instead.
    fn reject_row(&self, key: String, version: Version, rejection: RowRejection) -> VersionedValue {
        self.rejected.send_if_modified(|all| {
            let at = all.binary_search_by(|row| row.key.as_str().cmp(&key));
            let (Err(at), true) = (at, all.len() < MAX_REPORTED_ROWS) else { return false };
            tracing::error!(
                key,
                "a row of the store was {rejection} outside of Toolkeep and is ignored; run \
                 `toolkeep store list` to see all such rows"
            );
            all.insert(at, RejectedRow { key: key.clone(), rejection });
            true
        });
        VersionedValue {
            key,
            version,
            bytes: Bytes::from_static(REJECTED_VALUE),
            is_removal: false,
        }
    }

    /// Clears rejections of rows that were written through Toolkeep again.
    fn clear_rejections(&self, keys: impl IntoIterator<Item = impl AsRef<str>>) {
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

    fn check_all_rows(&self) -> Result<(), StatementError> {
        let Some(macs) = &self.macs else { return Ok(()) };
        let mut expected = macs.expected_keys("", None).peekable();
        let removed =
            |key: &str| drop(self.reject_row(key.to_owned(), Version(0), RowRejection::Removed));
        statements::visit_protected_rows(&self.connection, |key, bytes| {
            while let Some(key) = expected.next_if(|expected| *expected < key) {
                removed(key);
            }
            let _same = expected.next_if(|expected| *expected == key);
            if let Some(rejection) = macs.rejection_of(key, Some(bytes)) {
                drop(self.reject_row(key.to_owned(), Version(0), rejection));
            }
        })?;
        expected.for_each(removed);
        Ok(())
    }

    fn resolve_pending(&self, macs: &mut RowMacs) -> Result<(), StatementError> {
        macs.resolve_pending(|key| {
            let row = statements::get_row(&self.connection, key)?;
            Ok(row.map(|row| row.bytes.to_vec()))
        })
    }

    /// Writes a batch in order, in one transaction.
    pub(super) fn write_batch(
        &mut self,
        writes: &[WriteRequest],
    ) -> Result<Vec<Result<Version, StatementError>>, StatementError> {
        let Some(mut macs) = self.macs.take() else {
            let prepared =
                statements::prepare_batch(
                    &mut self.connection,
                    writes,
                    |put, _, _| Ok(put.expect),
                )?;
            prepared.transaction.commit()?;
            return Ok(prepared.results);
        };
        let done = self.write_batch_with_macs(&mut macs, writes);
        self.macs = Some(macs);
        done
    }

    fn write_batch_with_macs(
        &mut self,
        macs: &mut RowMacs,
        puts: &[WriteRequest],
    ) -> Result<Vec<Result<Version, StatementError>>, StatementError> {
        self.prepare_macs(macs)?;
        let prepared =
            statements::prepare_batch(&mut self.connection, puts, |put, stands, written| {
                effective_precondition(macs, put, (stands, written))
            });
        let statements::PreparedBatch { transaction, results: done, changed_writes: written } =
            prepared?;
        let rows = written.iter().map(|put| (put.key.as_str(), put.bytes.as_deref()));
        macs.begin_batch(rows).map_err(StatementError::Store)?;
        if let Err(error) = transaction.commit() {
            // If this fails, the next write retries it.
            drop(self.prepare_macs(macs));
            return Err(error.into());
        }
        macs.commit_batch();
        self.clear_rejections(written.iter().map(|put| &put.key));
        Ok(done)
    }

    /// Resolves a batch with unknown commit state, and prepares the MAC file.
    fn prepare_macs(&self, macs: &mut RowMacs) -> Result<(), StatementError> {
        if macs.is_unsettled() {
            self.resolve_pending(macs)?;
        }
        if macs.needs_rewrite() {
            macs.rewrite_file().map_err(StatementError::Store)
        } else {
            Ok(())
        }
    }

    /// Accepts a rejected row as it is; returns whether it was rejected.
    pub(super) fn accept_row(&mut self, key: &str) -> Result<bool, StatementError> {
        let row = statements::get_row(&self.connection, key)?;
        let Some(mut macs) = self.macs.take() else { return Ok(false) };
        let bytes = row.as_ref().map(|row| row.bytes.as_ref());
        let done = match macs.rejection_of(key, bytes) {
            None => Ok(false),
            Some(_) => self.prepare_macs(&mut macs).and_then(|()| {
                macs.begin_batch([(key, bytes)]).map_err(StatementError::Store)?;
                macs.commit_batch();
                Ok(true)
            }),
        };
        self.macs = Some(macs);
        self.clear_rejections([key]);
        done
    }
}

/// Returns the effective precondition. A row that someone else removed still exists for others: a
/// reader that has version 0 of it may write it again, and nobody may create another.
fn effective_precondition(
    macs: &RowMacs,
    put: &WriteRequest,
    (stands, written): (Option<Version>, &[&WriteRequest]),
) -> Result<WritePrecondition, StoreError> {
    let is_removed = || {
        let earlier = written.iter().any(|earlier| earlier.key == put.key);
        stands.is_none() && macs.contains_key(&put.key) && !earlier
    };
    match put.expect {
        WritePrecondition::Version(Version(0)) if is_removed() => Ok(WritePrecondition::Absent),
        WritePrecondition::Absent if is_removed() => {
            Err(StoreError::Conflict { key: put.key.clone() })
        }
        expect => Ok(expect),
    }
}
