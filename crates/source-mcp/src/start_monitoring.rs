//! Logs slow starts of a server and reports its recent exits.

use std::pin::pin;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::dual_era::StartedServer;
use super::pipe_connector::ConnectionError;
use super::server_supervisor::ServerSupervisor;

/// Time after which a start that is still running is logged.
const SLOW_START_AFTER: Duration = Duration::from_secs(20);

/// Uptime after which earlier exits are no longer reported.
const STABLE_UPTIME: Duration = Duration::from_mins(1);

/// Recent exits of a server.
#[derive(Debug, Clone)]
pub(super) struct LastExit {
    /// Reason of the last one.
    pub(super) error: ConnectionError,
    /// Number of exits within the window.
    pub(super) count: usize,
}

impl ServerSupervisor {
    /// Returns the recent exits, if the server is up again.
    pub(super) fn last_exit(&self) -> Option<LastExit> {
        self.last_exit.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts the server and logs a warning if that takes long.
    pub(super) async fn start_with_slow_warning(&self) -> Result<StartedServer, ConnectionError> {
        let mut begin = pin!(self.start_instance());
        if let Ok(begun) = timeout(SLOW_START_AFTER, &mut begin).await {
            return begun;
        }
        let limit = self.options.limits.start_timeout;
        tracing::info!(
            source = %self.name, ?limit,
            "an MCP server is still starting, limited by `startup_timeout`; nothing else waits for \
             it"
        );
        begin.await
    }

    /// Clears the last exit once the server has been up for a while.
    pub(super) async fn clear_last_exit(&self) {
        sleep(STABLE_UPTIME).await;
        let cleared = self.last_exit.lock().unwrap_or_else(PoisonError::into_inner).take();
        if cleared.is_some() {
            self.bump_revision();
        }
        std::future::pending::<()>().await;
    }
}
