//! Implements `toolkeep config show`, which prints the effective configuration.

use clap::Args;

use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;

/// Print the configuration as it counts: the file, the flags and the environment together, and every
/// default.
///
/// In the file's own words, as YAML. Secrets, headers and arguments of programs are not shown. Reads
/// the file as a server would; starts nothing. Sources with a fault are left out, and told.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep config show
  toolkeep --config toolkeep.yaml config show -o json")]
pub(crate) struct Show {}

impl Show {
    pub(super) fn run(context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let reading = config::read(&context.setting(None));
        let Some(config) = reading.config else {
            return Err(Failure::of_faults(reading.faults));
        };
        let shown = config::shown(&config);
        let text = cli_core::ui::as_yaml(&shown)?;
        ui.answer(&shown, || text)?;
        if reading.faults.0.is_empty() {
            return Ok(Exit::Done);
        }
        Err(Failure::of_faults(reading.faults))
    }
}
