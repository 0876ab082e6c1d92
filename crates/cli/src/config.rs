//! Implements `toolkeep config`: commands for configuration files.

mod check;
mod schema;
mod show;
mod trust;

use clap::Subcommand;

use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;

/// Check a configuration file; print it as it counts; print its JSON Schema; trust a file.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    Check(check::Check),
    Show(show::Show),
    Schema(schema::Schema),
    Trust(trust::Trust),
}

impl Config {
    pub(crate) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        match self {
            Self::Check(command) => command.run(context, ui).await,
            Self::Show(show::Show {}) => show::Show::run(context, ui),
            Self::Schema(schema::Schema {}) => schema::Schema::run(ui),
            Self::Trust(command) => command.run(context, ui),
        }
    }
}
