//! Implements `toolkeep tool`: commands that list, search, show and call tools.

mod argument_parser;
mod call;
mod count;
mod export;
mod install;
mod list;
mod search;
mod show;

use clap::Subcommand;

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::Printer;

/// List, search, count, export, show and call tools; install programs that built-in tools run.
#[derive(Debug, Subcommand)]
pub(crate) enum ToolCommand {
    List(list::ToolListArgs),
    Search(search::ToolSearchArgs),
    Count(count::ToolCountArgs),
    Export(export::ToolExportArgs),
    Show(show::ToolShowArgs),
    Call(call::ToolCallArgs),
    Install(install::ToolInstallArgs),
}

impl ToolCommand {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        match self {
            Self::List(command) => command.run(context, ui).await,
            Self::Search(command) => command.run(context, ui).await,
            Self::Count(command) => command.run(context, ui).await,
            Self::Export(command) => command.run(context, ui).await,
            Self::Show(command) => command.run(context, ui).await,
            Self::Call(command) => command.run(context, ui).await,
            Self::Install(command) => command.run(context, ui).await,
        }
    }
}
