//! Implements `toolkeep config show`, which prints the effective configuration.

use clap::Args;

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::Printer;

/// Show the effective configuration: file, flags, environment variables and defaults merged.
///
/// Prints YAML with the keys of the configuration file. Secrets, headers and program arguments are
/// not shown. Reads the file as a server would and starts nothing. Sources with errors are omitted
/// and reported.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep config show
  toolkeep --config toolkeep.yaml config show -o json")]
pub(crate) struct ConfigShowArgs {}

impl ConfigShowArgs {
    pub(super) fn run(
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let reading = config::load_config(&context.load_options(None));
        let Some(config) = reading.config else {
            return Err(CommandError::from_config_errors(reading.errors));
        };
        let shown = config::render_config(&config);
        let text = cli_core::printer::to_yaml(&shown)?;
        ui.print_result(&shown, || text)?;
        if reading.errors.0.is_empty() {
            return Ok(ExitStatus::Success);
        }
        Err(CommandError::from_config_errors(reading.errors))
    }
}
