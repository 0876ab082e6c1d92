//! The clocks of a server: the system clock and the steady clock, which never goes backwards.

use std::sync::Arc;

use server_core::SteadyClock;
use tool::{Clock, Store, StoreError};

use super::startup_error;
use cli_core::command_error::CommandError;
use host::clock::SystemClock;

/// The system clock and the steady clock of a server.
#[derive(Debug, Clone)]
pub(crate) struct ClockPair {
    /// For the record, sources and nodes.
    pub(crate) system_clock: Arc<dyn Clock>,
    /// For expiry of keys, tokens, pending calls and programs.
    pub(crate) steady_clock: Arc<SteadyClock>,
}

impl ClockPair {
    /// Restores the latest known time from the store; with `accepts_system_time`, restarts from the
    /// system clock.
    ///
    /// # Errors
    /// The store is unavailable.
    pub(crate) async fn restore_from(
        store: &dyn Store,
        accepts_system_time: bool,
    ) -> Result<Self, CommandError> {
        let failed = || startup_error::<StoreError>("the latest time");
        if accepts_system_time {
            SteadyClock::forget_latest(store).await.map_err(failed())?;
        }
        let system_clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let steady_clock = SteadyClock::new(Arc::clone(&system_clock));
        steady_clock.restore_latest(store).await.map_err(failed())?;
        Ok(Self { system_clock, steady_clock: Arc::new(steady_clock) })
    }

    /// Returns the steady clock.
    pub(crate) fn as_clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.steady_clock) as _
    }
}
