//! Implements `toolkeep config`: commands for configuration files.

mod check;
mod schema;
mod show;
mod trust;

use clap::Subcommand;

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::Printer;

/// Check, show and trust configuration files; print their JSON Schema.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    Check(check::ConfigCheckArgs),
    Show(show::ConfigShowArgs),
    Schema(schema::ConfigSchemaArgs),
    Trust(trust::ConfigTrustArgs),
}

impl ConfigCommand {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        match self {
            Self::Check(command) => command.run(context, ui).await,
            Self::Show(show::ConfigShowArgs {}) => show::ConfigShowArgs::run(context, ui),
            Self::Schema(schema::ConfigSchemaArgs {}) => schema::ConfigSchemaArgs::run(ui),
            Self::Trust(command) => command.run(context, ui),
        }
    }
}
