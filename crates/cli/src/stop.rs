//! Implements `toolkeep stop`, which stops the background server.

use clap::Args;
use serde_json::json;

use cli_core::background_server::stop_server;
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::Printer;

/// Stop the background server of the data directory after its running calls have ended.
///
/// Clients that are still connected start another one with their next request. This command does
/// not stop a server of `toolkeep serve`; stop it where it was started.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep stop
  toolkeep stop --data ./data")]
pub(crate) struct StopArgs {}

impl StopArgs {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let data = context.load_data_dir()?;
        let Some(server) = data.find_running_server() else {
            let answer = json!({ "stopped": null });
            ui.print_result(&answer, || "no background server is running".to_owned())?;
            return Ok(ExitStatus::Success);
        };
        if !server.is_background {
            let message = format!(
                "the server at {} (process {}) was started by `toolkeep serve`",
                server.local_url(),
                server.pid
            );
            return Err(CommandError::new(ExitStatus::Refused, message)
                .with_help("stop it where it was started"));
        }
        stop_server(&server).await?;
        let answer = json!({ "stopped": server.pid });
        ui.print_result(&answer, || format!("stopped: process {}", server.pid))?;
        Ok(ExitStatus::Success)
    }
}
