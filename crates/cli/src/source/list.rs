//! Implements `toolkeep source list`, which lists the sources.

use clap::Args;

use super::format_sources;
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::Printer;
use cli_core::rest_client::RequestPath;

/// List the sources with their state and problems.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep source list")]
pub(crate) struct SourceListArgs {}

impl SourceListArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let session = context.connect().await?;
        session.wait_for_listing(None, ui).await;
        let answer = session.client.get_json(&RequestPath::from_segments("/v1/sources", &[])).await;
        // Printed first: stopping an own server takes as long as its sources do.
        let shown = answer.and_then(|answer| ui.print_result(&answer, || format_sources(&answer)));
        session.close().await?;
        shown.map(|()| ExitStatus::Success)
    }
}
