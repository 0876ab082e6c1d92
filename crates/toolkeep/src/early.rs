//! What takes long and needs nothing: begun first, beside the opening of the store.

use egress::{Egress, EgressError, EgressSettings, HttpStack};
use tokio::task::{JoinHandle, spawn_blocking};

use super::fault;
use cli_core::failure::Failure;

/// On its way: reads the host's certificate authorities.
pub(crate) struct Early(JoinHandle<Result<Egress, EgressError>>);

impl Early {
    pub(crate) fn begin(http: HttpStack) -> Self {
        let settings = EgressSettings { http, ..EgressSettings::default() };
        Self(spawn_blocking(|| Egress::new(settings)))
    }

    /// The way out.
    pub(crate) async fn done(self) -> Result<Egress, Failure> {
        let egress = self.0.await.map_err(fault("the way out"))?;
        egress.map_err(fault("the way out"))
    }
}
