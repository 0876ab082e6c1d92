//! `toolkeep node authority`.

use std::path::PathBuf;

use clap::Args;
use guard::private_file;
use serde_json::json;
use tool::Clock as _;

use crate::cli::context::Context;
use crate::cli::failure::{Exit, Failure};
use crate::cli::ui::Ui;
use crate::clock::SystemClock;

/// Make an authority that several servers share: who names its file as `nodes.authority_file` signs for
/// nodes with it, and calls those that any of them let join. Whoever has the file can do the same.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep node authority nodes-authority.json")]
pub(in crate::cli) struct Authority {
    /// The file to write; one that is there is never touched.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Authority {
    pub(super) fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let failed = |error: String| Failure::new(Exit::Failed, error);
        let made = nodes::Authority::make(SystemClock::default().wall());
        let made = made.map_err(|error| failed(error.to_string()))?;
        let text = serde_json::to_string(&made).map_err(|error| failed(error.to_string()))?;
        let path = context.path(&self.file);
        let named = |error| failed(format!("`{}`: {error}", self.file.display()));
        let written = private_file::create_with(&path, text.as_bytes());
        written.map_err(named)?;
        let told = json!({ "file": self.file });
        ui.answer(&told, || format!("the authority stands in {}", self.file.display()))?;
        Ok(Exit::Done)
    }
}
