//! Implements `toolkeep policy`: commands that check, explain, compare and preview policies.

mod check;
mod diff;
mod explain;
mod preview;

use clap::Subcommand;

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::Printer;

/// Check policies, explain decisions and compare two policies.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    Check(check::PolicyCheckArgs),
    Explain(explain::PolicyExplainArgs),
    Diff(diff::PolicyDiffArgs),
    Preview(preview::PolicyPreviewArgs),
}

impl PolicyCommand {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        match self {
            Self::Check(command) => command.run(context, ui),
            Self::Explain(command) => command.run(context, ui).await,
            Self::Diff(command) => command.run(context, ui),
            Self::Preview(command) => command.run(context, ui).await,
        }
    }
}
