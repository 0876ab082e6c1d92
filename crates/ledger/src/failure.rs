//! The words in which the ledger says that something did not work: where, why, and what to do.

use std::io;
use std::path::Path;

use tool::LedgerError;

use crate::disk::is_full;

/// `what` did not work in `dir`.
pub(crate) fn failed(what: &str, dir: &Path, error: &io::Error) -> LedgerError {
    let fix = match error.kind() {
        _ if is_full(error) => {
            "free some space there; the record goes on by itself within 5 seconds"
        }
        io::ErrorKind::PermissionDenied => "give the server's user the right to write there",
        io::ErrorKind::WouldBlock => {
            "another process keeps its record there: stop it, or give this one a writer's name or a directory of its own"
        }
        io::ErrorKind::ReadOnlyFilesystem => "mount it for writing, or move the data directory",
        io::ErrorKind::NotFound => "make the directory, or correct its path in the configuration",
        _ => {
            "check the disk and the system's log; the record goes on by itself when writing works again"
        }
    };
    LedgerError::new(format!("{what} in `{}`: {}; {fix}", dir.display(), reason(error)))
}

fn reason(error: &io::Error) -> String {
    if is_full(error) { "no space is left".to_owned() } else { error.to_string() }
}

/// The ledger was closed.
pub(crate) fn closed(dir: &Path) -> LedgerError {
    LedgerError::new(format!(
        "the record in `{}` is closed: the server is stopping; call again when it is back",
        dir.display()
    ))
}

/// The disk takes longer than what was asked allows.
pub(crate) fn slow(dir: &Path, waited: std::time::Duration) -> LedgerError {
    LedgerError::new(format!(
        "the disk under `{}` did not confirm a record within {} ms; check its load and its health",
        dir.display(),
        waited.as_millis()
    ))
}

/// More is waiting for the disk than may wait.
pub(crate) fn behind(dir: &Path, bytes: usize) -> LedgerError {
    LedgerError::new(format!(
        "the disk under `{}` does not keep up: {bytes} bytes of records wait for it; check its load and its health",
        dir.display()
    ))
}
