//! SQL queries with in-memory SQLite: imports JSON tables, runs one read-only query and returns
//! rows as JSON.

mod json_tables;
mod row_writer;

use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Connection, Error, OpenFlags};

/// SQLite instructions between two checks of the deadline.
const PROGRESS_INSTRUCTIONS: i32 = 10_000;
/// Largest value, in bytes.
const MAX_VALUE_BYTES: i32 = 8 << 20;
/// Heap limit of SQLite per request, in bytes.
const HEAP_LIMIT_BYTES: i64 = 768 << 20;
/// Functions with access outside the database; denied in case they are compiled in.
const DENIED_FUNCTIONS: [&str; 6] =
    ["load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "sqlite_dbpage"];

/// SQLite limits with their values.
const SQLITE_LIMITS: [(Limit, i32); 10] = [
    (Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES),
    (Limit::SQLITE_LIMIT_SQL_LENGTH, 100_000),
    (Limit::SQLITE_LIMIT_COLUMN, 1_000),
    (Limit::SQLITE_LIMIT_EXPR_DEPTH, 100),
    (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 100),
    (Limit::SQLITE_LIMIT_FUNCTION_ARG, 100),
    (Limit::SQLITE_LIMIT_ATTACHED, 0),
    (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000),
    (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 1),
    (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
];

/// Runs the query and returns its rows as a JSON array of objects, or an error message.
pub(super) fn run_query(args: &[u8], limit: Duration) -> Result<Vec<u8>, String> {
    #[expect(clippy::disallowed_methods, reason = "the worker's own time; it has no port for it")]
    let until = Instant::now() + limit;
    let mut connection = open_database().map_err(|error| error_message(&error))?;
    let sql = json_tables::import_tables(&connection, args)?;
    make_read_only(&mut connection, until).map_err(|error| error_message(&error))?;
    row_writer::write_rows(&connection, &sql)
}

/// Opens an in-memory database. Temporary data is in memory too, because `memdb` is the only file
/// system. With `temp_store=MEMORY`, SQLite would sort row by row instead of in batches, which
/// takes twice as long.
fn open_database() -> Result<Connection, Error> {
    let flags = OpenFlags::default();
    let connection = Connection::open_with_flags_and_vfs(":memory:", flags, "memdb")?;
    connection.execute_batch(&format!(
        "PRAGMA hard_heap_limit={HEAP_LIMIT_BYTES}; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; \
         PRAGMA temp_store=FILE; PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON;"
    ))?;
    Ok(connection)
}

/// Makes the connection read-only and sets its deadline.
fn make_read_only(connection: &mut Connection, until: Instant) -> Result<(), Error> {
    for (what, most) in SQLITE_LIMITS {
        connection.set_limit(what, most)?;
    }
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    #[expect(clippy::disallowed_methods, reason = "the worker's own time; it has no port for it")]
    let late = move || Instant::now() > until;
    connection.progress_handler(PROGRESS_INSTRUCTIONS, Some(late))?;
    connection.authorizer(Some(|context: AuthContext<'_>| authorize_action(&context)))
}

fn authorize_action(context: &AuthContext<'_>) -> Authorization {
    let fine = match context.action {
        AuthAction::Select | AuthAction::Recursive => true,
        AuthAction::Read { table_name, .. } => !table_name.starts_with("pragma_"),
        AuthAction::Function { function_name } => {
            !DENIED_FUNCTIONS.iter().any(|never| function_name.eq_ignore_ascii_case(never))
        }
        _ => false,
    };
    if fine { Authorization::Allow } else { Authorization::Deny }
}

/// Formats an SQLite error as one line for the model.
fn error_message(error: &Error) -> String {
    use rusqlite::ErrorCode;
    match error {
        Error::MultipleStatement => "query: only one statement is allowed".to_owned(),
        Error::SqliteFailure(failure, message) => {
            let message = message.as_deref().unwrap_or("it failed").replace('\n', " ");
            match failure.code {
                ErrorCode::OperationInterrupted => {
                    "query: it took too long and was stopped; select less".to_owned()
                }
                ErrorCode::AuthorizationForStatementDenied => {
                    format!("query: {message}; only reading is allowed here: SELECT, WITH, VALUES")
                }
                ErrorCode::OutOfMemory => "query: it exceeded its memory limit".to_owned(),
                ErrorCode::TooBig => {
                    format!("query: {message}; a value may have at most {MAX_VALUE_BYTES} bytes")
                }
                _ => format!("query: {message}"),
            }
        }
        Error::SqlInputError { msg, offset, .. } => {
            let place =
                usize::try_from(*offset).map_or(String::new(), |at| format!(" at byte {}", at + 1));
            let hint = if msg.contains("not authorized") || msg.contains("prohibited") {
                "; only reading is allowed here: SELECT, WITH, VALUES"
            } else {
                ""
            };
            format!("query: {}{place}{hint}", msg.replace('\n', " "))
        }
        other => format!("query: {}", other.to_string().replace('\n', " ")),
    }
}

#[cfg(test)]
mod tests;
