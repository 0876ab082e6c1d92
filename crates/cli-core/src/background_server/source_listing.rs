//! Waiting for the first listing of a server's sources, which it reports in `server.json`.

use tokio::time::sleep;

use super::POLL_INTERVAL;
use crate::data_dir::{DataDir, ServerDescriptor};

/// Waits until the server with this process id has listed its sources for the first time, and
/// returns its descriptor. `None` if it ended or was replaced.
pub(crate) async fn wait_until_listed(data_dir: &DataDir, pid: u32) -> Option<ServerDescriptor> {
    loop {
        let server = data_dir.find_running_server().filter(|server| server.pid == pid)?;
        if server.has_listed_sources {
            return Some(server);
        }
        sleep(POLL_INTERVAL).await;
    }
}
