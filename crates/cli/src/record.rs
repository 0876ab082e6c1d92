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

use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;

/// Read the record of all calls, or follow it; check that nobody changed it.
#[derive(Debug, Subcommand)]
pub(crate) enum Record {
    List(list::List),
    Show(show::Show),
    Tail(tail::Tail),
    Verify(verify::Verify),
    Checkpoint(checkpoint::Checkpoint),
    Export(export::Export),
    Proof(proof::Proof),
}

impl Record {
    pub(crate) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
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
