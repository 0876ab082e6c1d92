//! Implements `toolkeep node authority`, which creates an authority file that several servers
//! share.

use std::path::PathBuf;

use clap::Args;
use rooted_fs::private_file;
use serde_json::json;
use tool::Clock as _;

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::Printer;
use host::clock::SystemClock;

/// Create a node authority that several servers share.
///
/// Each server that names the file as `nodes.authority_file` signs node certificates with it, and
/// calls nodes that any of these servers admitted. Protect the file: everyone who can read it can
/// do the same.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep node authority nodes-authority.json")]
pub(crate) struct NodeAuthorityArgs {
    /// File to write. An existing file is never overwritten.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl NodeAuthorityArgs {
    pub(crate) fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let failed = |error: String| CommandError::new(ExitStatus::Failed, error);
        let made = nodes::CertificateAuthority::generate(SystemClock::default().wall_now());
        let made = made.map_err(|error| failed(error.to_string()))?;
        let text = serde_json::to_string(&made).map_err(|error| failed(error.to_string()))?;
        let path = context.absolute_path(&self.file);
        let named = |error| failed(format!("`{}`: {error}", self.file.display()));
        let written = private_file::create_atomically(&path, text.as_bytes());
        written.map_err(named)?;
        let message = json!({ "file": self.file });
        ui.print_result(&message, || {
            format!("wrote the node authority to {}", self.file.display())
        })?;
        Ok(ExitStatus::Success)
    }
}
