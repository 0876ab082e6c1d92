//! Implements `toolkeep config trust`, which marks a configuration file as trusted.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::Printer;
use config::trust_file;

/// Trust a configuration file, so that `toolkeep mcp` reads it.
///
/// A configuration starts programs, and a cloned or unpacked directory may contain one. `toolkeep
/// mcp` therefore reads `toolkeep.yaml` of the current directory only if it is trusted. All other
/// commands read it in any case. Trusted paths are stored in
/// `~/.config/toolkeep/trusted_configurations`, one per line. To revoke the trust, remove the line.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep config trust
  toolkeep config trust ~/projects/toolkeep.yaml")]
pub(crate) struct ConfigTrustArgs {
    /// Configuration file [default: the file that other commands read here].
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

impl ConfigTrustArgs {
    pub(super) fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let file =
            self.file.map(|file| context.absolute_path(&file)).or_else(|| context.config_file());
        let Some(file) = file else {
            let failure =
                CommandError::new(ExitStatus::UsageError, "no configuration file was found");
            return Err(failure.with_help("run `toolkeep config trust FILE`"));
        };
        let trusted = trust_file(&file, &context.environment).map_err(|error| {
            let message = format!("cannot trust `{}`: {error}", file.display());
            CommandError::new(ExitStatus::Failed, message)
        })?;
        ui.print_result(&json!({ "trusted": trusted }), || {
            format!("trusted: {}", trusted.display())
        })?;
        Ok(ExitStatus::Success)
    }
}
