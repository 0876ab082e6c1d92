//! Implements `toolkeep record`: commands that read and verify the record.

mod checkpoint;
mod export;
mod list;
mod proof;
mod show;
mod tail;
mod verify;

pub(crate) use verify::verify_data;

use clap::Subcommand;

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::Printer;

/// List, follow, export and verify the tamper-evident record of all calls.
#[derive(Debug, Subcommand)]
pub(crate) enum RecordCommand {
    List(list::RecordListArgs),
    Show(show::RecordShowArgs),
    Tail(tail::RecordTailArgs),
    Verify(verify::RecordVerifyArgs),
    Checkpoint(checkpoint::RecordCheckpointArgs),
    Export(export::RecordExportArgs),
    Proof(proof::RecordProofArgs),
}

impl RecordCommand {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        match self {
            Self::List(command) => command.run(context, ui).await,
            Self::Show(command) => command.run(context, ui).await,
            Self::Tail(command) => command.run(context, ui).await,
            Self::Verify(command) => command.run(context, ui),
            Self::Checkpoint(command) => command.run(context, ui),
            Self::Export(command) => command.run(context, ui),
            Self::Proof(command) => command.run(context, ui),
        }
    }
}
