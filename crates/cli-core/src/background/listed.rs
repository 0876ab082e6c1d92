//! Whether the server of a data directory has listed its sources: it writes that into `server.json`.

use tokio::time::sleep;

use super::LOOK;
use crate::data::{DataDir, Server};

/// Waits until the server with this process id has listed its sources for the first time, or has waited for them long
/// enough; gives back what it says then. `None` where it has ended, or another one has taken its place.
pub(crate) async fn until_listed(data: &DataDir, pid: u32) -> Option<Server> {
    loop {
        let server = data.running_server().filter(|server| server.pid == pid)?;
        if server.listed {
            return Some(server);
        }
        sleep(LOOK).await;
    }
}
