//! Colours of messages on a terminal.
//!
//! Output is coloured only if the stream is a terminal, `NO_COLOR` is unset or empty and `TERM` is
//! not `dumb`. No variable forces colours into a pipe.

use std::ffi::OsStr;
use std::io::IsTerminal;

use clap::builder::styling::{AnsiColor, Style};

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const HELP: Style = AnsiColor::Cyan.on_default();

/// Whether output on this stream is coloured.
pub fn is_colored(stream: &impl IsTerminal) -> bool {
    let variable = |name: &str| std::env::var_os(name);
    allows_color(variable("NO_COLOR").as_deref(), variable("TERM").as_deref())
        && stream.is_terminal()
}

/// Whether the environment allows colours.
fn allows_color(no_color: Option<&OsStr>, term: Option<&OsStr>) -> bool {
    no_color.is_none_or(OsStr::is_empty) && term.is_none_or(|term| term != "dumb")
}

/// Colours the labels of a message: `error:`, `error[CODE]:`, `warning:` and `help:`.
pub(crate) fn color_labels(text: &str) -> String {
    text.split('\n').map(color_label).collect::<Vec<_>>().join("\n")
}

fn color_label(line: &str) -> String {
    let label = line.trim_start();
    let indent = line.strip_suffix(label).unwrap_or_default();
    let Some((word, rest)) = label.split_once(':') else { return line.to_owned() };
    let style = match word {
        "error" => ERROR,
        _ if word.starts_with("error[") && word.ends_with(']') => ERROR,
        "warning" => WARNING,
        "help" => HELP,
        _ => return line.to_owned(),
    };
    format!("{indent}{style}{word}{style:#}:{rest}")
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::{allows_color, color_labels};

    #[test]
    fn labels_are_colored_and_other_text_stays() {
        let text = "error[not_found]: no source `x: y`\n  help: run it\nt.yaml:3: error";
        let expected = "\u{1b}[1m\u{1b}[31merror[not_found]\u{1b}[0m: no source `x: y`\n  \
                        \u{1b}[36mhelp\u{1b}[0m: run it\nt.yaml:3: error";
        assert_eq!(color_labels(text), expected);
    }

    #[test]
    fn the_environment_can_turn_colors_off() {
        let (set, empty, dumb) = (OsStr::new("1"), OsStr::new(""), OsStr::new("dumb"));
        assert!(allows_color(None, None) && allows_color(Some(empty), None));
        assert!(!allows_color(Some(set), None) && !allows_color(None, Some(dumb)));
    }
}
