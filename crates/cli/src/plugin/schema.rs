//! Implements `toolkeep plugin schema`, which prints the schema of plugin manifests.

use clap::Args;

use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;

/// Print the JSON Schema of `manifest.json`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep plugin schema > manifest.schema.json")]
pub(crate) struct Schema {}

impl Schema {
    pub(super) fn print(ui: &mut Ui) -> Result<Exit, Failure> {
        ui.document(plugins::SCHEMA.to_owned())?;
        Ok(Exit::Done)
    }
}
