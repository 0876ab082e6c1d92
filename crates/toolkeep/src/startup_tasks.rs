//! Slow start-up work without dependencies; it runs while the store is opened.

use egress::{EgressClient, EgressError, EgressOptions, HttpStack};
use tokio::task::{JoinHandle, spawn_blocking};

use super::startup_error;
use cli_core::command_error::CommandError;

/// Start-up tasks that are running: loading the host's certificate authorities.
pub(crate) struct StartupTasks(JoinHandle<Result<EgressClient, EgressError>>);

impl StartupTasks {
    pub(crate) fn spawn_tasks(http_stack: HttpStack) -> Self {
        let options = EgressOptions { http_stack, ..EgressOptions::default() };
        Self(spawn_blocking(|| EgressClient::new(options)))
    }

    /// Waits for the tasks and returns the egress client.
    pub(crate) async fn join_tasks(self) -> Result<EgressClient, CommandError> {
        let egress = self.0.await.map_err(startup_error("egress"))?;
        egress.map_err(startup_error("egress"))
    }
}
