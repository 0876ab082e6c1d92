//! Implements `toolkeep config schema`, which prints the JSON Schema of the configuration.

use clap::Args;

use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::Printer;

/// Print the JSON Schema of the configuration file, for editors.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep config schema > toolkeep.schema.json
  (then add this first line to the configuration file: # yaml-language-server: $schema=./toolkeep.schema.json)")]
pub(crate) struct ConfigSchemaArgs {}

impl ConfigSchemaArgs {
    pub(super) fn run(ui: &mut Printer) -> Result<ExitStatus, CommandError> {
        let schema = config::render_json_schema();
        // JSON in both output formats.
        let value: serde_json::Value = serde_json::from_str(&schema)
            .map_err(|error| CommandError::new(ExitStatus::Failed, error.to_string()))?;
        ui.print_result(&value, || schema)?;
        Ok(ExitStatus::Success)
    }
}
