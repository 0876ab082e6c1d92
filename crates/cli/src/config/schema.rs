//! Implements `toolkeep config schema`, which prints the JSON Schema of the configuration.

use clap::Args;

use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;

/// Print the JSON Schema of the configuration file, for editors.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep config schema > toolkeep.schema.json
  (and as the first line of the file: # yaml-language-server: $schema=./toolkeep.schema.json)")]
pub(crate) struct Schema {}

impl Schema {
    pub(super) fn run(ui: &mut Ui) -> Result<Exit, Failure> {
        let schema = config::schema();
        // JSON in both output formats.
        let value: serde_json::Value = serde_json::from_str(&schema)
            .map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        ui.answer(&value, || schema)?;
        Ok(Exit::Done)
    }
}
