//! The SQL statements. They run on the store's own thread.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, TransactionBehavior, params};
use tool::store::WritePrecondition;
use tool::{StoreError, Version, VersionedValue};

use crate::store_cache::CACHE_PREFIX;
use crate::store_limits::{MAX_CHANGE_ROWS, MAX_SCAN_ROWS, MAX_TOMBSTONES, check_since};

pub(super) enum StatementError {
    Store(StoreError),
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for StatementError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// Versions count writes from 1, so that SQLite's signed 64 bits never overflow.
fn to_sql_version(version: Version) -> i64 {
    i64::try_from(version.0).unwrap_or(i64::MAX)
}

fn from_sql_version(number: i64) -> Version {
    Version(number.unsigned_abs())
}

fn to_sql_limit(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn read_row(row: &Row<'_>) -> rusqlite::Result<VersionedValue> {
    Ok(VersionedValue {
        key: row.get(0)?,
        version: from_sql_version(row.get(1)?),
        bytes: Bytes::from(row.get::<_, Vec<u8>>(2)?),
        is_removal: row.get(3)?,
    })
}

pub(super) fn get_row(
    connection: &Connection,
    key: &str,
) -> Result<Option<VersionedValue>, StatementError> {
    let sql = "SELECT key, version, bytes, removed FROM kv WHERE key = ?1 AND removed = 0";
    Ok(connection.prepare_cached(sql)?.query_row([key], read_row).optional()?)
}

/// Keys with one prefix are adjacent in byte order, so the scan starts at the prefix and ends at
/// the first key without it: no pattern, nothing to escape.
pub(super) fn scan_rows(
    connection: &Connection,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<VersionedValue>, StatementError> {
    let sql = "SELECT key, version, bytes, removed FROM kv
               WHERE key >= ?1 AND (?2 IS NULL OR key > ?2) ORDER BY key";
    let start = after.filter(|after| *after > prefix).unwrap_or(prefix);
    let mut statement = connection.prepare_cached(sql)?;
    let mut found = Vec::new();
    for row in statement.query_map(params![start, after], read_row)? {
        let row = row?;
        if found.len() >= limit.min(MAX_SCAN_ROWS) || !row.key.starts_with(prefix) {
            break;
        }
        if !row.is_removal {
            found.push(row);
        }
    }
    Ok(found)
}

pub(super) fn current_version(connection: &Connection) -> Result<Version, StatementError> {
    read_counter(connection, "version")
}

pub(super) fn changes_since(
    connection: &mut Connection,
    since: Version,
) -> Result<Vec<VersionedValue>, StatementError> {
    // Both reads use one snapshot.
    let transaction = connection.transaction()?;
    let floor = read_counter(&transaction, "floor")?;
    check_since(since, floor).map_err(StatementError::Store)?;
    let sql = "SELECT key, version, bytes, removed FROM kv
               WHERE version > ?1 ORDER BY version LIMIT ?2";
    let mut statement = transaction.prepare_cached(sql)?;
    let found =
        statement.query_map([to_sql_version(since), to_sql_limit(MAX_CHANGE_ROWS)], read_row)?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// One write request of a transaction.
pub(super) struct WriteRequest {
    pub(super) key: String,
    pub(super) expect: WritePrecondition,
    pub(super) bytes: Option<Bytes>,
}

/// Writes that are not committed yet. Dropping them rolls them back.
pub(super) struct PreparedBatch<'c, 'p> {
    pub(super) transaction: Transaction<'c>,
    /// Result of each write.
    pub(super) results: Vec<Result<Version, StatementError>>,
    /// Writes that change something, in order.
    pub(super) changed_writes: Vec<&'p WriteRequest>,
}

/// Executes concurrent writes in order in one transaction with one sync. A failed write is rolled
/// back alone; a failed commit fails all. `precondition` returns the precondition of a write from
/// its current version and the earlier writes.
pub(super) fn prepare_batch<'c, 'p>(
    connection: &'c mut Connection,
    puts: &'p [WriteRequest],
    precondition: impl Fn(
        &WriteRequest,
        Option<Version>,
        &[&WriteRequest],
    ) -> Result<WritePrecondition, StoreError>,
) -> Result<PreparedBatch<'c, 'p>, StatementError> {
    let mut transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let (mut done, mut written) = (Vec::with_capacity(puts.len()), Vec::with_capacity(puts.len()));
    for put in puts {
        let mut one = transaction.savepoint()?;
        let stands = version_of_row(&one, &put.key)?;
        let result = precondition(put, stands, &written)
            .map_err(StatementError::Store)
            .and_then(|precondition| self::put_row(&one, put, (precondition, stands)));
        match &result {
            Ok((_, true)) => written.push(put),
            Ok(_) => {}
            Err(_) => one.rollback()?,
        }
        one.commit()?;
        done.push(result.map(|(version, _)| version));
    }
    Ok(PreparedBatch { transaction, results: done, changed_writes: written })
}

fn version_of_row(transaction: &Connection, key: &str) -> Result<Option<Version>, StatementError> {
    let sql = "SELECT version FROM kv WHERE key = ?1 AND removed = 0";
    let found: Option<i64> =
        transaction.prepare_cached(sql)?.query_row([key], |row| row.get(0)).optional()?;
    Ok(found.map(from_sql_version))
}

/// Writes one row; returns the version, and whether it changes anything.
fn put_row(
    transaction: &Connection,
    put: &WriteRequest,
    (expect, stands): (WritePrecondition, Option<Version>),
) -> Result<(Version, bool), StatementError> {
    let (key, bytes) = (put.key.as_str(), put.bytes.as_deref());
    if !expect.allows_write(stands) {
        return Err(StatementError::Store(StoreError::Conflict { key: key.to_owned() }));
    }
    if stands.is_none() && bytes.is_none() {
        // The writer removes a row that was already removed by someone else: only its MAC is
        // deleted.
        return Ok((read_counter(transaction, "version")?, put.expect != expect));
    }
    Ok((write_row(transaction, key, bytes)?, true))
}

/// Visits all rows with MACs, ordered by key.
pub(super) fn visit_protected_rows(
    connection: &Connection,
    mut visit: impl FnMut(&str, &[u8]),
) -> Result<(), StatementError> {
    let sql = "SELECT key, bytes FROM kv
               WHERE removed = 0 AND substr(key, 1, length(?1)) <> ?1 ORDER BY key";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([CACHE_PREFIX])?;
    while let Some(row) = rows.next()? {
        let key: String = row.get(0)?;
        visit(&key, &row.get::<_, Vec<u8>>(1)?);
    }
    Ok(())
}

fn write_row(
    transaction: &Connection,
    key: &str,
    bytes: Option<&[u8]>,
) -> Result<Version, StatementError> {
    transaction.execute("UPDATE counter SET value = value + 1 WHERE name = 'version'", [])?;
    let version = read_counter(transaction, "version")?;
    let sql = "INSERT INTO kv (key, version, bytes, removed) VALUES (?1, ?2, ?3, ?4)
               ON CONFLICT (key) DO UPDATE SET version = ?2, bytes = ?3, removed = ?4";
    let row = params![key, to_sql_version(version), bytes.unwrap_or_default(), bytes.is_none()];
    transaction.prepare_cached(sql)?.execute(row)?;
    if bytes.is_none() {
        prune_tombstones(transaction)?;
    }
    Ok(version)
}

/// Prunes removals beyond the limit, and remembers up to which version changes are incomplete.
fn prune_tombstones(transaction: &Connection) -> Result<(), StatementError> {
    let sql = "SELECT version FROM kv WHERE removed = 1 ORDER BY version DESC LIMIT 1 OFFSET ?1";
    let oldest: Option<i64> = transaction
        .prepare_cached(sql)?
        .query_row([to_sql_limit(MAX_TOMBSTONES)], |row| row.get(0))
        .optional()?;
    let Some(oldest) = oldest else { return Ok(()) };
    transaction.execute("UPDATE counter SET value = ?1 WHERE name = 'floor'", [oldest])?;
    transaction.execute("DELETE FROM kv WHERE removed = 1 AND version <= ?1", [oldest])?;
    Ok(())
}

fn read_counter(connection: &Connection, name: &str) -> Result<Version, StatementError> {
    let sql = "SELECT value FROM counter WHERE name = ?1";
    let found = connection.prepare_cached(sql)?.query_row([name], |row| row.get(0)).optional()?;
    found.map(from_sql_version).ok_or_else(|| {
        let told = "the store is malformed: its write counter is missing; restore it from a backup";
        StatementError::Store(StoreError::Unavailable(told.to_owned()))
    })
}
