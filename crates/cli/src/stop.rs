//! Implements `toolkeep stop`, which stops the background server.

use clap::Args;
use serde_json::json;

use cli_core::background::end;
use cli_core::context::Context;
use cli_core::data::DataDir;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;

/// End the background server of the data directory, after the calls that run.
///
/// The server that `toolkeep mcp` started. Clients that are still there start another one with their next
/// request. A server that was started by `toolkeep serve` is ended where it was started.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep stop
  toolkeep stop --data ./data")]
pub(crate) struct Stop {}

impl Stop {
    pub(crate) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let reading = config::read(&context.setting(None));
        let Some(config) = &reading.config else {
            return Err(Failure::of_faults(reading.faults));
        };
        let data = DataDir::at(config.data.clone());
        let Some(server) = data.running_server() else {
            let answer = json!({ "stopped": null });
            ui.answer(&answer, || "no server runs here".to_owned())?;
            return Ok(Exit::Done);
        };
        if !server.background {
            let message = format!(
                "the server at {} (process {}) was started by `toolkeep serve`",
                server.url(),
                server.pid
            );
            return Err(Failure::new(Exit::Refused, message).fix("end it where it was started"));
        }
        end(&server).await?;
        let answer = json!({ "stopped": server.pid });
        ui.answer(&answer, || format!("ended: process {}", server.pid))?;
        Ok(Exit::Done)
    }
}
