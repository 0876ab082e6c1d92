//! All output of the command line; no other code prints.
//!
//! Text from tools and servers is sanitized, so that it cannot move the cursor, color the screen or
//! change the direction of writing.

mod json_table;
mod yaml_format;

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write};
use std::ops::ControlFlow;

use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;

use super::command_error::{CommandError, ExitStatus};
use super::terminal_color;
use config::ConfigErrors;
use tool::display_text::is_printable;

/// Maximum length of a confirmation, in bytes.
const MAX_CONFIRMATION_BYTES: u64 = 64;
/// Maximum length of a line that is asked for, in bytes.
const MAX_ANSWER_BYTES: u64 = 8 << 10;

/// Output format of the command line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Text for people.
    #[default]
    Text,
    /// One row per item, one column per scalar field.
    Table,
    /// The server's JSON, for programs.
    Json,
    /// The same content as YAML, with numbers of at most 64 bits.
    Yaml,
}

/// The writer of standard output and standard error.
pub struct Printer {
    format: OutputFormat,
    stdout: Box<dyn Write>,
    stderr: Box<dyn Write>,
    colors_notes: bool,
}

impl Printer {
    /// Creates a printer on the process's own streams.
    pub fn new(output: OutputFormat) -> Self {
        let is_for_people = matches!(output, OutputFormat::Text | OutputFormat::Table);
        let colors_notes = is_for_people && terminal_color::is_colored(&io::stderr());
        Self { colors_notes, ..Self::with_streams(output, io::stdout(), io::stderr()) }
    }

    /// Creates a printer on the given streams.
    pub fn with_streams(
        output: OutputFormat,
        out: impl Write + 'static,
        err: impl Write + 'static,
    ) -> Self {
        let (stdout, stderr) = (Box::new(out), Box::new(err));
        Self { format: output, stdout, stderr, colors_notes: false }
    }

    /// Prints the result of a command: the value as JSON, or its text for people.
    ///
    /// # Errors
    /// Returns an error if it cannot be written. A closed pipe is not an error.
    pub fn print_result<T: Serialize + ?Sized>(
        &mut self,
        value: &T,
        text: impl FnOnce() -> String,
    ) -> Result<(), CommandError> {
        let text = match self.format {
            OutputFormat::Text => text(),
            OutputFormat::Table => json_table::format_json_table(&to_json(value)?),
            OutputFormat::Json => {
                serde_json::to_string_pretty(value).map_err(|error| serialization_error(&error))?
            }
            OutputFormat::Yaml => yaml_format::format_yaml(&to_json(value)?)?,
        };
        self.write_text(text)
    }

    /// Prints raw text in any output format, for documents that are not results.
    pub fn print_raw(&mut self, text: String) -> Result<(), CommandError> {
        self.write_text(text)
    }

    /// Prints one item of a stream: a line of JSON, a document of YAML, or text. Breaks if the pipe
    /// is closed.
    pub fn print_item(
        &mut self,
        value: &Value,
        text: impl FnOnce() -> String,
    ) -> Result<ControlFlow<()>, CommandError> {
        let text = match self.format {
            OutputFormat::Text | OutputFormat::Table => text(),
            OutputFormat::Json => value.to_string(),
            OutputFormat::Yaml => format!("---\n{}", yaml_format::format_yaml(value)?.trim_end()),
        };
        match writeln!(self.stdout, "{text}").and_then(|()| self.stdout.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
            written => ignore_broken_pipe(written).map(ControlFlow::Continue),
        }
    }

    fn write_text(&mut self, text: String) -> Result<(), CommandError> {
        let line = if text.is_empty() || text.ends_with('\n') { text } else { text + "\n" };
        ignore_broken_pipe(
            self.stdout.write_all(line.as_bytes()).and_then(|()| self.stdout.flush()),
        )
    }

    /// Prints a note for people on standard error.
    pub fn print_note(&mut self, text: &str) {
        // A failure here cannot be reported to anyone.
        let _unheard = if self.colors_notes {
            writeln!(self.stderr, "{}", terminal_color::color_labels(text))
        } else {
            writeln!(self.stderr, "{text}")
        };
    }

    /// Asks for confirmation on the terminal; `None` without a terminal or an answer.
    pub fn ask_confirmation(&mut self, question: &str) -> Option<bool> {
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return None;
        }
        let asked = write!(self.stderr, "{question} [y/N] ").and_then(|()| self.stderr.flush());
        let mut answer = String::new();
        asked
            .and_then(|()| io::stdin().lock().take(MAX_CONFIRMATION_BYTES).read_line(&mut answer))
            .ok()?;
        match answer.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => Some(true),
            "n" | "no" => Some(false),
            _ => None,
        }
    }

    /// Asks for a line on the terminal; `None` without a terminal, an answer, or room for it.
    pub fn ask_line(&mut self, question: &str) -> Option<String> {
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return None;
        }
        let asked = write!(self.stderr, "{question}: ").and_then(|()| self.stderr.flush());
        let mut answer = String::new();
        asked
            .and_then(|()| io::stdin().lock().take(MAX_ANSWER_BYTES).read_line(&mut answer))
            .ok()?;
        let line = answer.strip_suffix('\n')?.trim();
        (!line.is_empty()).then(|| line.to_owned())
    }

    /// Prints notes about unused parts of a configuration.
    pub fn print_config_notes(&mut self, notes: &ConfigErrors) {
        notes.0.iter().for_each(|note| self.print_note(&format!("note: {note}")));
    }

    /// Prints an error on standard error.
    pub fn print_error(&mut self, failure: &CommandError) {
        let envelope = || serde_json::json!({ "error": failure });
        let text = match self.format {
            OutputFormat::Json => serde_json::to_string_pretty(&envelope()).unwrap_or_default(),
            OutputFormat::Yaml => {
                yaml_format::format_yaml(&envelope()).unwrap_or_default().trim_end().to_owned()
            }
            OutputFormat::Text | OutputFormat::Table => match failure.render_details() {
                Some(details) => format!("{details}\n\n{}", failure.render_text()),
                None => failure.render_text(),
            },
        };
        self.print_note(&text);
    }
}

impl std::fmt::Debug for Printer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ui").field("output", &self.format).finish_non_exhaustive()
    }
}

/// Formats an object as one line per scalar, including those one level down.
pub fn format_fields(value: &Value) -> String {
    json_table::format_pairs(value)
}

fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<Value, CommandError> {
    serde_json::to_value(value).map_err(|error| serialization_error(&error))
}

/// Formats a value as YAML, for commands that print YAML for people.
pub fn to_yaml(value: &Value) -> Result<String, CommandError> {
    yaml_format::format_yaml(value)
}

fn serialization_error(error: &serde_json::Error) -> CommandError {
    CommandError::new(ExitStatus::Failed, format!("cannot encode the output: {error}"))
}

fn ignore_broken_pipe(written: io::Result<()>) -> Result<(), CommandError> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CommandError::new(ExitStatus::Failed, format!("cannot write the output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Sanitizes external text of several lines.
pub fn sanitize_text(text: &str) -> String {
    let safe = |c: char| match c {
        '\n' | '\t' => c,
        c if is_printable(c) => c,
        _ => '\u{fffd}',
    };
    text.chars().map(safe).collect()
}

/// Sanitizes external text to one line of at most `width` characters.
pub fn sanitize_line(text: &str, width: usize) -> String {
    let first = sanitize_text(text.trim().lines().next().unwrap_or_default()).replace('\t', " ");
    if first.chars().count() <= width {
        return first;
    }
    first.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Formats rows in aligned columns; the last column is not padded.
pub fn format_table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let head = head.map(str::to_owned);
    let all: Vec<_> = std::iter::once(&head).chain(rows).map(<[String; N]>::as_slice).collect();
    align_columns(&all)
}

/// Aligns cells in columns as wide as their widest cell.
fn align_columns(rows: &[&[String]]) -> String {
    let columns = rows.iter().map(|row| row.len()).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let write = |row: &&[String]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(write).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
