//! What takes long and needs nothing: begun first, beside the opening of the store.

use std::sync::Arc;

use guard::egress::{Egress, EgressError, EgressSettings};
use ledger::signed::RecordKey;
use tokio::task::{JoinHandle, spawn_blocking};

use super::fault;
use crate::cli::data::Held;
use crate::cli::failure::Failure;

/// On its way.
pub(super) struct Early {
    /// Reads the host's certificate authorities.
    egress: JoinHandle<Result<Egress, EgressError>>,
    /// Made on a first start, which gathers randomness.
    key: JoinHandle<Result<RecordKey, Failure>>,
}

impl Early {
    pub(super) fn begin(held: &Arc<Held>) -> Self {
        let held = Arc::clone(held);
        Self {
            egress: spawn_blocking(|| Egress::new(EgressSettings::default())),
            key: spawn_blocking(move || held.record_key()),
        }
    }

    /// The way out and the record's key.
    pub(super) async fn done(self) -> Result<(Egress, RecordKey), Failure> {
        let key = self.key.await.map_err(fault("the record's key"))??;
        let egress = self.egress.await.map_err(fault("the way out"))?;
        Ok((egress.map_err(fault("the way out"))?, key))
    }
}
