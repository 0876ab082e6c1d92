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

/// What is told while there is less room than the ledger keeps in reserve.
#[derive(Debug, Clone)]
pub(crate) struct Short {
    /// Of calls with effects.
    pub(crate) effects: LedgerError,
    /// Of every call, once the reserve is used up too.
    pub(crate) all: LedgerError,
}

/// `free` bytes are free in `dir`, as far as could be seen, and `reserve` are kept.
pub(crate) fn short(dir: &Path, free: u64, reserve: u64) -> Short {
    let (dir, more) = (dir.display(), if free == 0 { "some" } else { "some more" });
    let room = match free {
        0 => "no space is left".to_owned(),
        free => format!(
            "about {} are free, which is less than the {} that the ledger keeps in reserve",
            size(free),
            size(reserve)
        ),
    };
    let fix = format!("free {more} space there; the record goes on by itself within 5 seconds");
    let effects = format!(
        "calls with effects are refused, because they cannot be recorded surely in `{dir}`: {room}; {fix}"
    );
    let all = format!(
        "no call can be recorded in `{dir}`: {room}, and the ledger's reserve is used up; {fix}"
    );
    Short { effects: LedgerError::new(effects), all: LedgerError::new(all) }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_024 => format!("{bytes} bytes"),
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ => format!("{} KiB", bytes >> 10),
    }
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
