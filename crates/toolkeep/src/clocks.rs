//! The machine's clock, and the one that never goes back, by which ends are judged.

use std::sync::Arc;

use server_core::SteadyClock;
use tool::{Clock, Store, StoreError};

use super::fault;
use cli_core::failure::Failure;
use host::clock::SystemClock;

/// Both clocks of a server.
#[derive(Debug, Clone)]
pub(crate) struct Clocks {
    /// For the record, sources and nodes.
    pub(crate) machine: Arc<dyn Clock>,
    /// For keys, tokens, pending calls and programs.
    pub(crate) steady: Arc<SteadyClock>,
}

impl Clocks {
    /// As late as the store says; where `accept` is set, as late as the machine says.
    ///
    /// # Errors
    /// Where the store does not answer.
    pub(crate) async fn open(store: &dyn Store, accept: bool) -> Result<Self, Failure> {
        let failed = || fault::<StoreError>("the latest time");
        if accept {
            SteadyClock::forget(store).await.map_err(failed())?;
        }
        let machine: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let steady = SteadyClock::new(Arc::clone(&machine));
        steady.restore(store).await.map_err(failed())?;
        Ok(Self { machine, steady: Arc::new(steady) })
    }

    /// The steady one.
    pub(crate) fn steady(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.steady) as _
    }
}
