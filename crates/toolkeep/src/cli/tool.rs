//! `toolkeep tool`.

mod arguments;
mod call;
mod list;
mod show;

use clap::Subcommand;

use super::context::Context;
use super::failure::{Exit, Failure};
use super::ui::Ui;

/// List tools, look at one, call one.
#[derive(Debug, Subcommand)]
pub(super) enum Tool {
    List(list::List),
    Show(show::Show),
    Call(call::Call),
}

impl Tool {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        match self {
            Self::List(command) => command.run(context, ui).await,
            Self::Show(command) => command.run(context, ui).await,
            Self::Call(command) => command.run(context, ui).await,
        }
    }
}
