//! The SQL statements. They run on the store's own thread.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, TransactionBehavior, params};
use tool::store::Expect;
use tool::{StoreError, Version, Versioned};

use crate::bounds::{NEWS_ROWS, SCAN_ROWS, TOMBSTONES, check_since};

pub(super) enum Error {
    Store(StoreError),
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// Versions count writes from 1, so that SQLite's signed 64 bits never overflow.
fn number(version: Version) -> i64 {
    i64::try_from(version.0).unwrap_or(i64::MAX)
}

fn version(number: i64) -> Version {
    Version(number.unsigned_abs())
}

fn rows(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Versioned> {
    Ok(Versioned {
        key: row.get(0)?,
        version: version(row.get(1)?),
        bytes: Bytes::from(row.get::<_, Vec<u8>>(2)?),
        removed: row.get(3)?,
    })
}

pub(super) fn get(connection: &Connection, key: &str) -> Result<Option<Versioned>, Error> {
    let sql = "SELECT key, version, bytes, removed FROM kv WHERE key = ?1 AND removed = 0";
    Ok(connection.prepare_cached(sql)?.query_row([key], read).optional()?)
}

/// Keys with one prefix are adjacent in byte order, so the scan starts at the prefix and ends at
/// the first key without it: no pattern, nothing to escape.
pub(super) fn scan(
    connection: &Connection,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<Versioned>, Error> {
    let sql = "SELECT key, version, bytes, removed FROM kv
               WHERE key >= ?1 AND (?2 IS NULL OR key > ?2) ORDER BY key";
    let start = after.filter(|after| *after > prefix).unwrap_or(prefix);
    let mut statement = connection.prepare_cached(sql)?;
    let mut found = Vec::new();
    for row in statement.query_map(params![start, after], read)? {
        let row = row?;
        if found.len() >= limit.min(SCAN_ROWS) || !row.key.starts_with(prefix) {
            break;
        }
        if !row.removed {
            found.push(row);
        }
    }
    Ok(found)
}

pub(super) fn news(connection: &mut Connection, since: Version) -> Result<Vec<Versioned>, Error> {
    // Both reads use one snapshot.
    let transaction = connection.transaction()?;
    let floor = counter(&transaction, "floor")?;
    check_since(since, floor).map_err(Error::Store)?;
    let sql = "SELECT key, version, bytes, removed FROM kv
               WHERE version > ?1 ORDER BY version LIMIT ?2";
    let mut statement = transaction.prepare_cached(sql)?;
    let found = statement.query_map([number(since), rows(NEWS_ROWS)], read)?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// One write request.
pub(super) struct Put {
    pub(super) key: String,
    pub(super) expect: Expect,
    pub(super) bytes: Option<Bytes>,
}

/// Writes that are not committed yet. Dropping them rolls them back.
pub(super) struct Prepared<'c, 'p> {
    pub(super) transaction: Transaction<'c>,
    /// Result of each write.
    pub(super) done: Vec<Result<Version, Error>>,
    /// Writes that change something, in order.
    pub(super) written: Vec<&'p Put>,
}

/// Executes concurrent writes in order in one transaction with one sync. A failed write is rolled
/// back alone; a failed commit fails all. `expect` returns the precondition of a write from its
/// current version and the earlier writes.
pub(super) fn prepare_all<'c, 'p>(
    connection: &'c mut Connection,
    puts: &'p [Put],
    expect: impl Fn(&Put, Option<Version>, &[&Put]) -> Result<Expect, StoreError>,
) -> Result<Prepared<'c, 'p>, Error> {
    let mut transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let (mut done, mut written) = (Vec::with_capacity(puts.len()), Vec::with_capacity(puts.len()));
    for put in puts {
        let mut one = transaction.savepoint()?;
        let stands = standing(&one, &put.key)?;
        let result = expect(put, stands, &written)
            .map_err(Error::Store)
            .and_then(|expect| self::put(&one, put, (expect, stands)));
        match &result {
            Ok((_, true)) => written.push(put),
            Ok(_) => {}
            Err(_) => one.rollback()?,
        }
        one.commit()?;
        done.push(result.map(|(version, _)| version));
    }
    Ok(Prepared { transaction, done, written })
}

fn standing(transaction: &Connection, key: &str) -> Result<Option<Version>, Error> {
    let sql = "SELECT version FROM kv WHERE key = ?1 AND removed = 0";
    let found: Option<i64> =
        transaction.prepare_cached(sql)?.query_row([key], |row| row.get(0)).optional()?;
    Ok(found.map(version))
}

/// Writes one row; returns the version, and whether it changes anything.
fn put(
    transaction: &Connection,
    put: &Put,
    (expect, stands): (Expect, Option<Version>),
) -> Result<(Version, bool), Error> {
    let (key, bytes) = (put.key.as_str(), put.bytes.as_deref());
    let holds = match expect {
        Expect::Absent => stands.is_none(),
        Expect::Version(version) => stands == Some(version),
    };
    if !holds {
        return Err(Error::Store(StoreError::Conflict { key: key.to_owned() }));
    }
    if stands.is_none() && bytes.is_none() {
        // The writer removes a row that was already removed by someone else: only its MAC is
        // deleted.
        return Ok((counter(transaction, "version")?, put.expect != expect));
    }
    Ok((write(transaction, key, bytes)?, true))
}

/// Visits all rows with MACs, ordered by key.
pub(super) fn each_protected(
    connection: &Connection,
    mut each: impl FnMut(&str, &[u8]),
) -> Result<(), Error> {
    // `cache0` follows all keys that begin with `cache/`.
    let sql = "SELECT key, bytes FROM kv
               WHERE removed = 0 AND (key < 'cache/' OR key >= 'cache0') ORDER BY key";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let key: String = row.get(0)?;
        each(&key, &row.get::<_, Vec<u8>>(1)?);
    }
    Ok(())
}

fn write(transaction: &Connection, key: &str, bytes: Option<&[u8]>) -> Result<Version, Error> {
    transaction.execute("UPDATE counter SET value = value + 1 WHERE name = 'version'", [])?;
    let version = counter(transaction, "version")?;
    let sql = "INSERT INTO kv (key, version, bytes, removed) VALUES (?1, ?2, ?3, ?4)
               ON CONFLICT (key) DO UPDATE SET version = ?2, bytes = ?3, removed = ?4";
    let row = params![key, number(version), bytes.unwrap_or_default(), bytes.is_none()];
    transaction.prepare_cached(sql)?.execute(row)?;
    if bytes.is_none() {
        forget(transaction)?;
    }
    Ok(version)
}

/// Prunes removals beyond the limit, and remembers up to which version changes are incomplete.
fn forget(transaction: &Connection) -> Result<(), Error> {
    let sql = "SELECT version FROM kv WHERE removed = 1 ORDER BY version DESC LIMIT 1 OFFSET ?1";
    let oldest: Option<i64> = transaction
        .prepare_cached(sql)?
        .query_row([rows(TOMBSTONES)], |row| row.get(0))
        .optional()?;
    let Some(oldest) = oldest else { return Ok(()) };
    transaction.execute("UPDATE counter SET value = ?1 WHERE name = 'floor'", [oldest])?;
    transaction.execute("DELETE FROM kv WHERE removed = 1 AND version <= ?1", [oldest])?;
    Ok(())
}

fn counter(connection: &Connection, name: &str) -> Result<Version, Error> {
    let sql = "SELECT value FROM counter WHERE name = ?1";
    let found = connection.prepare_cached(sql)?.query_row([name], |row| row.get(0)).optional()?;
    found.map(version).ok_or_else(|| {
        let told = "the store is malformed: its count of writes is gone; restore it from a backup";
        Error::Store(StoreError::Unavailable(told.to_owned()))
    })
}
