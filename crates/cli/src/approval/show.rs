//! Implements `toolkeep approval show`, which shows one pending call.

use clap::Args;

use super::format_approval;
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::Printer;
use cli_core::rest_client::RequestPath;
use cli_core::server_transport::SourceNeed;

/// Show a pending call: its tool, arguments, caller and the reason for the approval.
///
/// Invisible characters in the arguments, such as zero-width ones, are printed as escapes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep approval show 01980000-0000-7000-8000-000000000000
  toolkeep approval show 01980000-0000-7000-8000-000000000000 -o json")]
pub(crate) struct ApprovalShowArgs {
    /// ID of the pending call, as `toolkeep approval list` prints it.
    #[arg(value_name = "ID")]
    id: String,
}

impl ApprovalShowArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let session = context.connect().await?;
        session.wait_for_sources(SourceNeed::Approval(&self.id), ui).await;
        let answer = session
            .client
            .get_json(&RequestPath::from_segments("/v1/approvals", &[&self.id]))
            .await;
        session.close().await?;
        let answer = answer?;
        ui.print_result(&answer, || format_approval(&answer))?;
        Ok(ExitStatus::Success)
    }
}
