//! Implements `toolkeep config trust`, which marks a configuration file as trusted.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;
use config::trust;

/// Let `toolkeep mcp` read a configuration file when a program starts it in that folder.
///
/// A configuration starts programs, and a folder that was cloned or unpacked may hold one. So `toolkeep mcp` reads
/// the `toolkeep.yaml` of the current folder only after this command. All other commands read it without. The path is
/// kept in `trusted_configurations` of `~/.config/toolkeep`, a line for each; remove the line to take it back.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep config trust
  toolkeep config trust ~/projects/toolkeep.yaml")]
pub(crate) struct Trust {
    /// The file [default: the one that other commands read here].
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

impl Trust {
    pub(super) fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let file = self.file.map(|file| context.path(&file)).or_else(|| context.configuration());
        let Some(file) = file else {
            let failure = Failure::new(Exit::Usage, "there is no configuration file here");
            return Err(failure.fix("`toolkeep config trust FILE`"));
        };
        let trusted = trust(&file, &context.environment).map_err(|error| {
            let message = format!("`{}` cannot be trusted: {error}", file.display());
            Failure::new(Exit::Failed, message)
        })?;
        ui.answer(&json!({ "trusted": trusted }), || format!("trusted: {}", trusted.display()))?;
        Ok(Exit::Done)
    }
}
