//! `toolkeep plugin schema`.

use clap::Args;

use crate::cli::failure::{Exit, Failure};
use crate::cli::ui::Ui;

/// Print the JSON Schema of `manifest.json`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep plugin schema > manifest.schema.json")]
pub(in crate::cli) struct Schema {}

impl Schema {
    pub(super) fn print(ui: &mut Ui) -> Result<Exit, Failure> {
        ui.document(plugins::SCHEMA.to_owned())?;
        Ok(Exit::Done)
    }
}
