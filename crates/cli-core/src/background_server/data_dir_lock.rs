//! Locking of a data directory, for a server or for a command that changes its content.

use std::sync::Arc;
use std::time::Duration;

use super::{StartLock, occupied_error, take_over_data_dir};
use crate::command_error::{CommandError, ExitStatus};
use crate::data_dir::{DataDir, DataDirLock};

/// Number of attempts to lock the directory of a dead server, and the delay between them.
const LOCK_ATTEMPTS: usize = 60;
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Locks the data directory and reserves the start of a server.
///
/// # Errors
/// Returns an error if a live server holds the directory, or if it cannot be written.
pub async fn acquire_data_dir(
    data_dir: &DataDir,
) -> Result<(Arc<DataDirLock>, StartLock), CommandError> {
    for _ in 0..LOCK_ATTEMPTS {
        if let Some(taken) = take_over_data_dir(data_dir).await? {
            return Ok(taken);
        }
        // The lock of a killed server may be inherited for a moment by a program that it was
        // starting; checking the lock takes it for a moment, too.
        if data_dir.read_server().is_some_and(|server| server.is_alive()) {
            break;
        }
        tokio::time::sleep(LOCK_RETRY_DELAY).await;
    }
    let path = data_dir.path().display();
    let Some(server) = data_dir.read_server() else { return Err(occupied_error(data_dir)) };
    let (url, pid) = (server.local_url(), server.pid);
    let message =
        format!("the data directory `{path}` is in use by the server at {url} (process {pid})");
    Err(CommandError::new(ExitStatus::ServerUnavailable, message)
        .with_help("stop that server, or choose another directory with `--data DIR`"))
}
