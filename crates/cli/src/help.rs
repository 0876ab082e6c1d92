//! Help of the commands: a subcommand shows its own options and names the global ones in one line.

use std::ffi::OsString;
use std::io::{self, Write};

use clap::builder::styling::Styles;
use clap::error::ErrorKind;
use clap::{Command, CommandFactory as _};

use super::Cli;
use cli_core::terminal_color::is_colored;

/// The global options that the help of a subcommand names.
const NAMED_OPTIONS: [&str; 5] = ["output", "config", "data", "url", "key"];

/// Replaces the help of a subcommand by one that describes only its own options. Other errors stay
/// as they are.
pub(crate) fn fold_global_options(error: clap::Error, args: &[OsString]) -> clap::Error {
    let is_help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    if !is_help {
        return error;
    }
    let mut command = Cli::command();
    // Subcommands get their global options here.
    command.build();
    let command = command.mut_subcommands(fold_command);
    command.try_get_matches_from(args).err().unwrap_or(error)
}

/// Hides the global options of a command and of its subcommands behind one line.
fn fold_command(command: Command) -> Command {
    let style = Styles::styled();
    let heading = style.get_header();
    let names = NAMED_OPTIONS.map(|name| format!("--{name}")).join(", ");
    let template = format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{{all-args}}\n\n\
         {heading}Global options{heading:#} (see toolkeep --help): {names}{{after-help}}"
    );
    let hide = |arg: clap::Arg| {
        let is_hidden = arg.is_hide_set() || arg.is_global_set();
        arg.hide(is_hidden)
    };
    command.help_template(template).mut_args(hide).mut_subcommands(fold_command)
}

/// Prints help, the version or a usage error, coloured on a terminal.
pub(crate) fn print(error: &clap::Error) -> io::Result<()> {
    let text = error.render();
    if error.use_stderr() {
        write(&mut io::stderr().lock(), is_colored(&io::stderr()), &text)
    } else {
        write(&mut io::stdout().lock(), is_colored(&io::stdout()), &text)
    }
}

fn write(
    out: &mut impl Write,
    is_colored: bool,
    text: &clap::builder::StyledStr,
) -> io::Result<()> {
    if is_colored { write!(out, "{}", text.ansi()) } else { write!(out, "{text}") }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::{CommandFactory as _, Parser as _};

    use super::{NAMED_OPTIONS, fold_global_options, write};
    use crate::Cli;

    fn help(words: &[&str]) -> clap::Error {
        let args: Vec<_> = words.iter().map(OsString::from).collect();
        fold_global_options(Cli::try_parse_from(&args).unwrap_err(), &args)
    }

    #[test]
    fn a_subcommand_describes_its_own_options_and_names_the_global_ones_in_one_line() {
        for words in [
            &["toolkeep", "tool", "list", "--help"][..],
            &["toolkeep", "tool", "list", "-h"],
            &["toolkeep", "help", "tool", "list"],
        ] {
            let help = help(words).to_string();
            assert!(help.contains("Usage: toolkeep tool list [OPTIONS]"), "{words:?}: {help}");
            assert!(help.contains("--losses"), "{words:?}: {help}");
            let line = "\n\nGlobal options (see toolkeep --help): --output, --config, --data, --url, --key\n\n";
            assert!(help.contains(line), "{words:?}: {help}");
            assert!(!help.contains("--source-timeout"), "{words:?}: {help}");
        }
        // The control: the main help describes them.
        let main = help(&["toolkeep", "--help"]).to_string();
        assert!(main.contains("Global options:\n") && main.contains("--source-timeout"), "{main}");
    }

    #[test]
    fn the_named_options_are_global_and_are_accepted_by_each_subcommand() {
        let line = Cli::command();
        for name in NAMED_OPTIONS {
            let option = line.get_arguments().find(|arg| arg.get_long() == Some(name));
            assert!(option.is_some_and(clap::Arg::is_global_set), "{name}");
        }
        assert!(Cli::try_parse_from(["toolkeep", "tool", "list", "--data", "d"]).is_ok());
    }

    #[test]
    fn help_is_colored_only_where_it_is_asked_for() {
        let text = |is_colored| {
            let mut out = Vec::new();
            write(&mut out, is_colored, &help(&["toolkeep", "stop", "--help"]).render()).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(text(true).contains("\u{1b}[") && !text(false).contains('\u{1b}'));
    }
}
