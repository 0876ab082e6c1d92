//! Locking of a data directory, for a server or for a command that changes its content.

use std::sync::Arc;
use std::time::Duration;

use super::{Starting, occupied, take_over};
use crate::data::{DataDir, Held};
use crate::failure::{Exit, Failure};

/// Number of attempts to lock the directory of a dead server, and the delay between them.
const TRIES: usize = 60;
const AGAIN: Duration = Duration::from_millis(50);

/// Locks the data directory and reserves the start of a server.
///
/// # Errors
/// Returns an error if a live server holds the directory, or if it cannot be written.
pub async fn hold(data: &DataDir) -> Result<(Arc<Held>, Starting), Failure> {
    for _ in 0..TRIES {
        if let Some(taken) = take_over(data).await? {
            return Ok(taken);
        }
        // The lock of a killed server may be inherited for a moment by a program that it was
        // starting; checking the lock takes it for a moment, too.
        if data.server().is_some_and(|server| server.is_alive()) {
            break;
        }
        tokio::time::sleep(AGAIN).await;
    }
    let path = data.path().display();
    let Some(server) = data.server() else { return Err(occupied(data)) };
    let (url, pid) = (server.url(), server.pid);
    let message =
        format!("the data directory `{path}` is held by the server at {url} (process {pid})");
    Err(Failure::new(Exit::NoServer, message)
        .fix("end that one, or choose another directory with `--data DIR`"))
}
