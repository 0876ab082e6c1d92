//! Implements `toolkeep completions`, which prints completion scripts for shells.

use clap::{Args, CommandFactory as _, ValueEnum};
use clap_complete::{Shell, generate};

use super::Cli;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::Printer;

/// Print a shell completion script.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  source <(toolkeep completions bash)
  toolkeep completions zsh > ~/.zfunc/_toolkeep
  toolkeep completions fish > ~/.config/fish/completions/toolkeep.fish")]
pub(crate) struct CompletionsArgs {
    /// Shell to print the script for.
    #[arg(value_enum, value_name = "SHELL")]
    shell: ShellName,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ShellName {
    Bash,
    Zsh,
    Fish,
}

impl CompletionsArgs {
    pub(crate) fn run(self, ui: &mut Printer) -> Result<ExitStatus, CommandError> {
        let shell = match self.shell {
            ShellName::Bash => Shell::Bash,
            ShellName::Zsh => Shell::Zsh,
            ShellName::Fish => Shell::Fish,
        };
        let mut script = Vec::new();
        generate(shell, &mut Cli::command(), "toolkeep", &mut script);
        ui.print_raw(String::from_utf8_lossy(&script).into_owned())?;
        Ok(ExitStatus::Success)
    }
}
