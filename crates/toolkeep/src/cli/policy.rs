//! `toolkeep policy`.

mod check;
mod diff;
mod explain;

use clap::Subcommand;

use super::context::Context;
use super::failure::{Exit, Failure};
use super::ui::Ui;

/// Check a policy, tell why a call is allowed or not, and compare two policies.
#[derive(Debug, Subcommand)]
pub(super) enum Policy {
    Check(check::Check),
    Explain(explain::Explain),
    Diff(diff::Diff),
}

impl Policy {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        match self {
            Self::Check(command) => command.run(context, ui),
            Self::Explain(command) => command.run(context, ui).await,
            Self::Diff(command) => command.run(context, ui),
        }
    }
}
