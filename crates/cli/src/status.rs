//! Implements `toolkeep status`, which checks that a server is running and ready.

use clap::Args;
use serde::Serialize;

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::Printer;
use cli_core::rest_client::RequestPath;

/// Check that a server is running and can record calls.
///
/// Asks the server that uses the data directory, or the one that `--url` names. Starts no server and
/// needs no key. Exits with 4 if no server is running, or if it is not ready. Use it as the health
/// check of a container.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep status
  toolkeep status --url http://127.0.0.1:8080 -o json")]
pub(crate) struct StatusArgs {}

/// A server that is ready.
#[derive(Debug, Serialize)]
struct ServerStatus {
    address: String,
    status: &'static str,
}

impl StatusArgs {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let (address, client) = context.require_server()?;
        client.get_json(&RequestPath::from_segments("/readyz", &[])).await.map_err(|failure| {
            let message = format!("the server at {address} is not ready: {failure}");
            CommandError::new(ExitStatus::ServerUnavailable, message)
                .with_help("run `toolkeep doctor`, and read the log of the server")
        })?;
        let status = ServerStatus { address, status: "ready" };
        ui.print_result(&status, || format!("ready: {}", status.address))?;
        Ok(ExitStatus::Success)
    }
}
