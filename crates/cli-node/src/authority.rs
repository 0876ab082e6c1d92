//! Implements `toolkeep node authority`, which creates an authority file that several servers
//! share.

use std::path::PathBuf;

use clap::Args;
use rooted_fs::private_file;
use serde_json::json;
use tool::Clock as _;

use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;
use host::clock::SystemClock;

/// Make an authority that several servers share: who names its file as `nodes.authority_file` signs for
/// nodes with it, and calls those that any of them let join. Whoever has the file can do the same.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep node authority nodes-authority.json")]
pub(crate) struct Authority {
    /// The file to write; one that is there is never touched.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Authority {
    pub(crate) fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
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
