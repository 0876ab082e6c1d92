//! `toolkeep config`.

mod check;
mod schema;
mod show;

use clap::Subcommand;

use super::context::Context;
use super::failure::{Exit, Failure};
use super::ui::Ui;

/// Check a configuration file; print it as it counts; print its JSON Schema.
#[derive(Debug, Subcommand)]
pub(super) enum Config {
    Check(check::Check),
    Show(show::Show),
    Schema(schema::Schema),
}

impl Config {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        match self {
            Self::Check(command) => command.run(context, ui).await,
            Self::Show(show::Show {}) => show::Show::run(context, ui),
            Self::Schema(schema::Schema {}) => schema::Schema::run(ui),
        }
    }
}
