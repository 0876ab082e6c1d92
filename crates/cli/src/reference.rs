//! The published reference of the command line: the help of every command as one document.

use std::fmt::Write as _;

use clap::CommandFactory as _;

use super::Cli;
use cli_core::command_error::ExitStatus;

/// Renders the text of `docs/reference/cli.md`.
pub fn render_reference() -> String {
    let mut text = String::from(
        "# The command line\n\n\
         Generated from the help of each command by `cargo xtask generate`; do not edit.\n\n\
         ## Exit codes\n\n| code | meaning |\n| --- | --- |\n",
    );
    for (exit, meaning) in ExitStatus::ALL {
        let _infallible = writeln!(text, "| {} | {meaning} |", exit.code());
    }
    let mut line = Cli::command().term_width(100);
    // Assigns each command its full name and inherited flags.
    line.build();
    write_command(&line, true, &mut text);
    text
}

/// Writes the help of a command and its subcommands; global flags are shown once, with the first.
fn write_command(command: &clap::Command, shows_global_flags: bool, text: &mut String) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let adjust = |arg: clap::Arg| {
        let everywhere = arg.is_global_set() || arg.get_id() == "help";
        // The local environment differs from the reader's.
        arg.hide_env_values(true).hide(everywhere && !shows_global_flags)
    };
    let help = command.clone().mut_args(adjust).render_long_help().to_string();
    let lines: Vec<_> = help.lines().map(str::trim_end).collect();
    let _infallible = write!(text, "\n## {name}\n\n```text\n{}\n```\n", lines.join("\n").trim());
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        write_command(inner, false, text);
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::{Cli, render_reference};

    fn leaves(command: &clap::Command, found: &mut Vec<clap::Command>) {
        if command.has_subcommands() {
            command.get_subcommands().for_each(|inner| leaves(inner, found));
        } else {
            found.push(command.clone());
        }
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    /// What is given for one would be taken for the other, such as an id for the key that is sent.
    #[test]
    fn no_argument_of_a_command_has_the_name_of_one_of_all_commands() {
        let mut found = Vec::new();
        leaves(&Cli::command(), &mut found);
        let line = Cli::command();
        let everywhere: Vec<_> =
            line.get_arguments().filter(|it| it.is_global_set()).map(clap::Arg::get_id).collect();
        assert!(everywhere.iter().any(|id| *id == "key"), "{everywhere:?}");
        for command in found {
            let own = command.get_arguments().filter(|it| !it.is_global_set());
            let shadows: Vec<_> = own.filter(|it| everywhere.contains(&it.get_id())).collect();
            assert!(shadows.is_empty(), "{}: {shadows:?}", command.get_name());
        }
    }

    #[test]
    fn every_command_has_help_with_an_example() {
        let mut found = Vec::new();
        leaves(&Cli::command(), &mut found);
        assert!(found.len() >= 14, "{}", found.len());
        for command in found {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.starts_with("Example"), "{}", command.get_name());
            assert!(after.contains("toolkeep "), "{}", command.get_name());
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                assert!(
                    argument.get_help().is_some(),
                    "{} {}",
                    command.get_name(),
                    argument.get_id()
                );
            }
        }
    }

    /// The words of an example, as a shell would split them; what is not this program's is cut off.
    fn words(example: &str) -> Option<Vec<String>> {
        let (_, own) = example.split_once("toolkeep ")?;
        let own = own.split([')', '|']).next()?.split(" > ").next()?;
        let mut words = vec!["toolkeep".to_owned()];
        for (index, part) in own.split('\'').enumerate() {
            if index % 2 == 1 {
                words.last_mut()?.push_str(part);
                continue;
            }
            for (index, piece) in part.split(' ').enumerate() {
                if index > 0 || words.len() == 1 {
                    words.push(String::new());
                }
                words.last_mut()?.push_str(piece);
            }
        }
        Some(words.into_iter().filter(|word| !word.is_empty()).collect())
    }

    #[test]
    fn every_example_is_a_line_that_is_understood() {
        let mut found = Vec::new();
        leaves(&Cli::command(), &mut found);
        let after = |command: &clap::Command| command.get_after_help().map(ToString::to_string);
        let examples: Vec<_> = found.iter().filter_map(after).collect();
        let lines = examples.iter().flat_map(|text| text.lines()).filter_map(words);
        let mut count = 0;
        for words in lines {
            let read = Cli::try_parse_from(&words);
            assert!(read.is_ok(), "{words:?}: {}", read.unwrap_err());
            count += 1;
        }
        assert!(count >= found.len(), "{count}");
        // The control: a word that is none is not understood.
        let wrong = words("  toolkeep tool export --fromat mcp").unwrap();
        assert!(Cli::try_parse_from(wrong).is_err());
    }

    #[test]
    fn no_secret_of_the_environment_is_in_the_help() {
        let key = Cli::command().get_arguments().find(|a| a.get_id() == "key").cloned().unwrap();
        assert!(key.is_hide_env_values_set());
    }

    #[test]
    fn golden_reference_of_the_command_line() {
        testkit::golden_file::assert_matches_file("docs/reference/cli.md", &render_reference());
    }
}
