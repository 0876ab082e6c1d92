//! Implements `toolkeep plugin schema`, which prints the schema of plugin manifests.

use clap::Args;

use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::Printer;

/// Print the JSON Schema of `manifest.json`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep plugin schema > manifest.schema.json")]
pub(crate) struct PluginSchemaArgs {}

impl PluginSchemaArgs {
    pub(super) fn run(ui: &mut Printer) -> Result<ExitStatus, CommandError> {
        ui.print_raw(plugins::SCHEMA.to_owned())?;
        Ok(ExitStatus::Success)
    }
}
