//! Implements `toolkeep tool`: commands that list, show and call tools.

mod arguments;
mod call;
mod count;
mod export;
mod install;
mod list;
mod show;

use clap::Subcommand;

use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;

/// List tools, count and export them, look at one, call one; install what a built-in one runs.
#[derive(Debug, Subcommand)]
pub(crate) enum Tool {
    List(list::List),
    Count(count::Count),
    Export(export::Export),
    Show(show::Show),
    Call(call::Call),
    Install(install::Install),
}

impl Tool {
    pub(crate) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        match self {
            Self::List(command) => command.run(context, ui).await,
            Self::Count(command) => command.run(context, ui).await,
            Self::Export(command) => command.run(context, ui).await,
            Self::Show(command) => command.run(context, ui).await,
            Self::Call(command) => command.run(context, ui).await,
            Self::Install(command) => command.run(context, ui).await,
        }
    }
}
