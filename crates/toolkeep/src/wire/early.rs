//! What takes long and needs nothing: begun first, beside the opening of the store.

use guard::egress::{Egress, EgressError, EgressSettings};
use tokio::task::{JoinHandle, spawn_blocking};

use super::fault;
use crate::cli::failure::Failure;

/// On its way: reads the host's certificate authorities.
pub(super) struct Early(JoinHandle<Result<Egress, EgressError>>);

impl Early {
    pub(super) fn begin() -> Self {
        Self(spawn_blocking(|| Egress::new(EgressSettings::default())))
    }

    /// The way out.
    pub(super) async fn done(self) -> Result<Egress, Failure> {
        let egress = self.0.await.map_err(fault("the way out"))?;
        egress.map_err(fault("the way out"))
    }
}
