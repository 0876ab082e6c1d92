//! Implements `toolkeep completions`, which prints completion scripts for shells.

use clap::{Args, CommandFactory as _, ValueEnum};
use clap_complete::{Shell, generate};

use super::Line;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;

/// Print the script by which a shell completes this command line.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  source <(toolkeep completions bash)
  toolkeep completions zsh > ~/.zfunc/_toolkeep
  toolkeep completions fish > ~/.config/fish/completions/toolkeep.fish")]
pub(crate) struct Completions {
    /// The shell.
    #[arg(value_enum, value_name = "SHELL")]
    shell: Known,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Known {
    Bash,
    Zsh,
    Fish,
}

impl Completions {
    pub(crate) fn run(self, ui: &mut Ui) -> Result<Exit, Failure> {
        let shell = match self.shell {
            Known::Bash => Shell::Bash,
            Known::Zsh => Shell::Zsh,
            Known::Fish => Shell::Fish,
        };
        let mut script = Vec::new();
        generate(shell, &mut Line::command(), "toolkeep", &mut script);
        ui.document(String::from_utf8_lossy(&script).into_owned())?;
        Ok(Exit::Done)
    }
}
