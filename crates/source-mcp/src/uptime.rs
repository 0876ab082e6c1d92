//! What is said of a server that takes long to start, or that has come up again.

use std::pin::pin;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::dial::Fault;
use super::eras::Begun;
use super::upstream::Upstream;

/// A start that takes longer is logged, while it goes on.
const LONG_START: Duration = Duration::from_secs(20);

/// A server that was up for so long is no longer said to have ended.
const HEALED: Duration = Duration::from_mins(1);

impl Upstream {
    /// Why it last ended and how often it did, where it has come up again since.
    pub(super) fn scar(&self) -> Option<(Fault, usize)> {
        self.scar.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says so where a start takes long.
    pub(super) async fn begin_watched(&self) -> Result<Begun, Fault> {
        let mut begin = pin!(self.begin());
        if let Ok(begun) = timeout(LONG_START, &mut begin).await {
            return begun;
        }
        let limit = self.options.bounds.start;
        tracing::info!(
            source = %self.name, ?limit,
            "an MCP server is still starting; `startup_timeout` limits that, and nobody else waits for it"
        );
        begin.await
    }

    /// Once a server was up for a while, that it ended before is no news any more.
    pub(super) async fn heal(&self) {
        sleep(HEALED).await;
        let scar = self.scar.lock().unwrap_or_else(PoisonError::into_inner).take();
        if scar.is_some() {
            self.bump();
        }
        std::future::pending::<()>().await;
    }
}
