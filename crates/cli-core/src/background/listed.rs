//! Waiting for the first listing of a server's sources, which it reports in `server.json`.

use tokio::time::sleep;

use super::LOOK;
use crate::data::{DataDir, Server};

/// Waits until the server with this process id has listed its sources for the first time, and
/// returns its descriptor. `None` if it ended or was replaced.
pub(crate) async fn until_listed(data: &DataDir, pid: u32) -> Option<Server> {
    loop {
        let server = data.running_server().filter(|server| server.pid == pid)?;
        if server.listed {
            return Some(server);
        }
        sleep(LOOK).await;
    }
}
