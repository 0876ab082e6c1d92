//! Implements `toolkeep policy`: commands that check, explain and compare policies.

mod check;
mod diff;
mod explain;

use clap::Subcommand;

use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;

/// Check a policy, tell why a call is allowed or not, and compare two policies.
#[derive(Debug, Subcommand)]
pub(crate) enum Policy {
    Check(check::Check),
    Explain(explain::Explain),
    Diff(diff::Diff),
}

impl Policy {
    pub(crate) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        match self {
            Self::Check(command) => command.run(context, ui),
            Self::Explain(command) => command.run(context, ui).await,
            Self::Diff(command) => command.run(context, ui),
        }
    }
}
