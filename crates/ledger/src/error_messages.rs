//! Error messages of the ledger: the location, the cause and the remedy.

use std::io;
use std::path::Path;

use tool::LedgerError;

use crate::disk::is_storage_full;

/// Returns the error of a failed operation in `dir`; `action` describes the failure.
pub(crate) fn io_failure(action: &str, dir: &Path, error: &io::Error) -> LedgerError {
    let fix = match error.kind() {
        _ if is_storage_full(error) => "free some space there; recording resumes within 5 seconds",
        io::ErrorKind::PermissionDenied => "give the server's user write permission there",
        io::ErrorKind::WouldBlock => {
            "another process writes its record there: stop it, or give this server its own writer \
             name or directory"
        }
        io::ErrorKind::ReadOnlyFilesystem => "mount it writable, or move the data directory",
        io::ErrorKind::NotFound => "create the directory, or correct its path in the configuration",
        _ => "check the disk and the system log; recording resumes as soon as writing succeeds",
    };
    LedgerError::new(format!("{action} in `{}`: {}; {fix}", dir.display(), error_reason(error)))
}

fn error_reason(error: &io::Error) -> String {
    if is_storage_full(error) { "no space left".to_owned() } else { error.to_string() }
}

/// Error while less disk space is free than the ledger reserves.
#[derive(Debug, Clone)]
pub(crate) struct LowSpaceErrors {
    /// Of calls with effects.
    pub(crate) synced_calls: LedgerError,
    /// Of every call, once the reserve is used up too.
    pub(crate) all_calls: LedgerError,
}

/// Returns the errors of a nearly full disk: about `free` bytes are free, and `reserve` bytes are
/// reserved.
pub(crate) fn low_space(dir: &Path, free: u64, reserve: u64) -> LowSpaceErrors {
    let (dir, more) = (dir.display(), if free == 0 { "some" } else { "some more" });
    let room = match free {
        0 => "no space left".to_owned(),
        free => format!(
            "about {} are free, less than the ledger's reserve of {}",
            format_size(free),
            format_size(reserve)
        ),
    };
    let fix = format!("free {more} space there; recording resumes within 5 seconds");
    let effects = format!(
        "calls with side effects are rejected, because they cannot be recorded reliably in \
         `{dir}`: {room}; {fix}"
    );
    let all = format!(
        "no call can be recorded in `{dir}`: {room}, and the ledger's reserve is exhausted; {fix}"
    );
    LowSpaceErrors { synced_calls: LedgerError::new(effects), all_calls: LedgerError::new(all) }
}

fn format_size(bytes: u64) -> String {
    match bytes {
        0..1_024 => format!("{bytes} bytes"),
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ => format!("{} KiB", bytes >> 10),
    }
}

/// Returns the error of a closed ledger.
pub(crate) fn ledger_closed(dir: &Path) -> LedgerError {
    LedgerError::new(format!(
        "the record in `{}` is closed: the server is stopping; call again after its restart",
        dir.display()
    ))
}

/// Returns the error of a sync that exceeded its time limit.
pub(crate) fn sync_timeout(dir: &Path, waited: std::time::Duration) -> LedgerError {
    LedgerError::new(format!(
        "the disk of `{}` did not sync a record within {} ms; check its load and health",
        dir.display(),
        waited.as_millis()
    ))
}

/// Returns the error of too many unsynced records.
pub(crate) fn backlog_full(dir: &Path, bytes: usize) -> LedgerError {
    LedgerError::new(format!(
        "the disk of `{}` is too slow: {bytes} bytes of records are queued; check its load and \
         health",
        dir.display()
    ))
}
