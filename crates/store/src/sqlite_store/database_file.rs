//! Opening of the database file: mode, format check, schema.

use std::fmt::Display;
use std::fs::{OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use tool::{FormatSupport, StoreError};

/// Versions of the file, which are its `user_version`. The first opening migrates an older file.
pub(super) const FORMAT: FormatSupport = FormatSupport { oldest_readable: 1, written: 2 };
/// `application_id` of the file: `TKst`.
const APPLICATION_ID: i64 = 0x544b_7374;

/// Time for which another process may hold the write lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The rows are in a table rather than an index (`WITHOUT ROWID`), in which a row of more than
/// 1,002 bytes would have an overflow page.
const ROWS_SCHEMA: &str = "
    CREATE TABLE kv (
        key     TEXT PRIMARY KEY NOT NULL,
        version INTEGER NOT NULL UNIQUE,
        bytes   BLOB NOT NULL,
        removed INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX kv_removed ON kv (version) WHERE removed = 1;
";

const COUNTERS_SCHEMA: &str = "
    CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    INSERT INTO counter VALUES ('version', 0), ('floor', 0);
";

/// Migration from format 1, whose rows were in an index.
const MIGRATION_FROM_1: [&str; 2] = [
    "DROP INDEX kv_removed; ALTER TABLE kv RENAME TO kv_1;",
    "INSERT INTO kv SELECT key, version, bytes, removed FROM kv_1; DROP TABLE kv_1;",
];

pub(super) fn file_unavailable(path: &Path, reason: &dyn Display) -> StoreError {
    StoreError::Unavailable(format!("cannot use the store `{}`: {reason}", path.display()))
}

pub(super) fn open_read_write(path: &Path) -> Result<Connection, StoreError> {
    let fail = |error: rusqlite::Error| file_unavailable(path, &error);
    create_private(path).map_err(|error| file_unavailable(path, &error))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(fail)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(fail)?;
    let written = read_header(&connection).map_err(fail)?;
    check_format(written).map_err(|reason| file_unavailable(path, &reason))?;
    initialize(&mut connection).map_err(fail)?;
    Ok(connection)
}

pub(super) fn check_integrity(path: &Path) -> Result<(), StoreError> {
    let fail = |error: rusqlite::Error| file_unavailable(path, &error);
    let connection = open_read_only(path)?;
    let found = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    match found.map_err(fail)?.as_str() {
        "ok" => Ok(()),
        damage => Err(file_unavailable(path, &damage)),
    }
}

/// Opens the file beside a writing process, and changes nothing.
pub(super) fn open_read_only(path: &Path) -> Result<Connection, StoreError> {
    let (connection, written) = connect_read_only(path)?;
    check_format(written).map_err(|reason| file_unavailable(path, &reason))?;
    Ok(connection)
}

/// Reads the format version of the file, which this program need not support, and changes nothing;
/// `None` for a file without tables.
pub(super) fn read_format(path: &Path) -> Result<Option<u32>, StoreError> {
    let (_, written) = connect_read_only(path)?;
    match written {
        DatabaseHeader { application_id: APPLICATION_ID, format, .. } => Ok(Some(format)),
        other => match check_format(other) {
            Ok(()) => Ok(None),
            Err(reason) => Err(file_unavailable(path, &reason)),
        },
    }
}

fn connect_read_only(path: &Path) -> Result<(Connection, DatabaseHeader), StoreError> {
    let fail = |error: rusqlite::Error| file_unavailable(path, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(fail)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(fail)?;
    let written = read_header(&connection).map_err(fail)?;
    Ok((connection, written))
}

/// Creates the file for its owner only before SQLite opens it; SQLite's additional files take its
/// mode.
fn create_private(path: &Path) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    let file =
        options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct DatabaseHeader {
    application_id: i64,
    format: u32,
    table_count: i64,
}

fn read_header(connection: &Connection) -> rusqlite::Result<DatabaseHeader> {
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    Ok(DatabaseHeader {
        application_id: number("PRAGMA application_id")?,
        // Negative numbers are no version of this program.
        format: u32::try_from(number("PRAGMA user_version")?).unwrap_or(u32::MAX),
        table_count: number("SELECT count(*) FROM sqlite_schema")?,
    })
}

fn check_format(written: DatabaseHeader) -> Result<(), String> {
    match written {
        DatabaseHeader { application_id: APPLICATION_ID, format, .. }
            if FORMAT.can_read(format) =>
        {
            Ok(())
        }
        DatabaseHeader { application_id: APPLICATION_ID, format, .. } => Err(format!(
            "{}; use that version, or another data directory",
            FORMAT.unreadable_reason(format)
        )),
        DatabaseHeader { application_id: 0, format: 0, table_count: 0 } => Ok(()),
        _ => Err("another program created it; use another data directory".to_owned()),
    }
}

/// Sets up the connection, and creates the tables of a new file.
fn initialize(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    let immediate = rusqlite::TransactionBehavior::Immediate;
    let transaction = connection.transaction_with_behavior(immediate)?;
    // Read again inside the transaction: two processes may open a new file at once.
    let written = read_header(&transaction)?;
    if written.table_count == 0 {
        transaction.execute_batch(ROWS_SCHEMA)?;
        transaction.execute_batch(COUNTERS_SCHEMA)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    } else if written.format == 1 {
        let [before, after] = MIGRATION_FROM_1;
        for step in [before, ROWS_SCHEMA, after] {
            transaction.execute_batch(step)?;
        }
    }
    if written.format < FORMAT.written {
        transaction.pragma_update(None, "user_version", FORMAT.written)?;
    }
    transaction.commit()
}
