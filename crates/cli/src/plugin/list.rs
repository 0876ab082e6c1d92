//! Implements `toolkeep plugin list`, which lists the plugins.

use clap::Args;

use super::format_plugins;
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::Printer;
use cli_core::rest_client::RequestPath;

/// List the plugins with their state and problems.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep plugin list")]
pub(crate) struct PluginListArgs {}

impl PluginListArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let session = context.connect().await?;
        session.wait_for_listing(None, ui).await;
        let answer = session.client.get_json(&RequestPath::from_segments("/v1/plugins", &[])).await;
        session.close().await?;
        let answer = answer?;
        ui.print_result(&answer, || format_plugins(&answer))?;
        Ok(ExitStatus::Success)
    }
}
