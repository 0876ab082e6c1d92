//! Taking hold of a data directory, for a server or for a command that changes what a server keeps.

use std::sync::Arc;
use std::time::Duration;

use super::{Starting, occupied, take_over};
use crate::data::{DataDir, Held};
use crate::failure::{Exit, Failure};

/// How often the directory of a server that is dead is tried to be held, and how far apart.
const TRIES: usize = 60;
const AGAIN: Duration = Duration::from_millis(50);

/// Takes hold of it.
///
/// # Errors
/// Where a server that is alive holds it, or it cannot be written.
pub async fn hold(data: &DataDir) -> Result<(Arc<Held>, Starting), Failure> {
    for _ in 0..TRIES {
        if let Some(taken) = take_over(data).await? {
            return Ok(taken);
        }
        // A server that was killed while it started a program leaves its hold to that for a moment, and who looks
        // whether the directory is held has it for a moment.
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
