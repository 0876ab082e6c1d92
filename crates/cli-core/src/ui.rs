//! All output of the command line; no other code prints.
//!
//! Text from tools and servers is sanitized, so that it cannot move the cursor, color the screen or
//! change the direction of writing.

mod grid;
mod yaml;

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write};
use std::ops::ControlFlow;

use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;

use super::failure::{Exit, Failure};
use config::Faults;

/// Maximum length of a confirmation, in bytes.
const ANSWER: u64 = 64;

/// How answers are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Text,
    /// One row for each thing, one column for each plain value that it has.
    Table,
    /// For programs: the server's own JSON.
    Json,
    /// The same as YAML, with numbers of at most 64 bits.
    Yaml,
}

/// The writer of standard output and standard error.
pub struct Ui {
    output: Output,
    out: Box<dyn Write>,
    err: Box<dyn Write>,
}

impl Ui {
    /// Creates a printer on the process's own streams.
    pub fn new(output: Output) -> Self {
        Self::onto(output, io::stdout(), io::stderr())
    }

    /// Creates a printer on the given streams.
    pub fn onto(output: Output, out: impl Write + 'static, err: impl Write + 'static) -> Self {
        Self { output, out: Box::new(out), err: Box::new(err) }
    }

    /// Prints the result of a command: the value as JSON, or its text for people.
    ///
    /// # Errors
    /// Returns an error if it cannot be written. A closed pipe is not an error.
    pub fn answer<T: Serialize + ?Sized>(
        &mut self,
        value: &T,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let text = match self.output {
            Output::Text => text(),
            Output::Table => grid::grid(&value_of(value)?),
            Output::Json => {
                serde_json::to_string_pretty(value).map_err(|error| unwritten(&error))?
            }
            Output::Yaml => yaml::yaml(&value_of(value)?)?,
        };
        self.write(text)
    }

    /// Prints raw text in any output format, for documents that are not results.
    pub fn document(&mut self, text: String) -> Result<(), Failure> {
        self.write(text)
    }

    /// Prints one item of a stream: a line of JSON, a document of YAML, or text. Breaks if the pipe
    /// is closed.
    pub fn stream(
        &mut self,
        value: &Value,
        text: impl FnOnce() -> String,
    ) -> Result<ControlFlow<()>, Failure> {
        let text = match self.output {
            Output::Text | Output::Table => text(),
            Output::Json => value.to_string(),
            Output::Yaml => format!("---\n{}", yaml::yaml(value)?.trim_end()),
        };
        match writeln!(self.out, "{text}").and_then(|()| self.out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
            written => told(written).map(ControlFlow::Continue),
        }
    }

    fn write(&mut self, text: String) -> Result<(), Failure> {
        let line = if text.is_empty() || text.ends_with('\n') { text } else { text + "\n" };
        told(self.out.write_all(line.as_bytes()).and_then(|()| self.out.flush()))
    }

    /// Prints a note for people on standard error.
    pub fn note(&mut self, text: &str) {
        // A failure here cannot be reported to anyone.
        let _unheard = writeln!(self.err, "{text}");
    }

    /// Asks for confirmation on the terminal; `None` without a terminal or an answer.
    pub fn confirm(&mut self, question: &str) -> Option<bool> {
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return None;
        }
        let asked = write!(self.err, "{question} [y/N] ").and_then(|()| self.err.flush());
        let mut answer = String::new();
        asked.and_then(|()| io::stdin().lock().take(ANSWER).read_line(&mut answer)).ok()?;
        match answer.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => Some(true),
            "n" | "no" => Some(false),
            _ => None,
        }
    }

    /// Prints notes about unused parts of a configuration.
    pub fn notes(&mut self, notes: &Faults) {
        notes.0.iter().for_each(|note| self.note(&format!("note: {note}")));
    }

    /// Prints an error on standard error.
    pub fn failure(&mut self, failure: &Failure) {
        let envelope = || serde_json::json!({ "error": failure });
        let text = match self.output {
            Output::Json => serde_json::to_string_pretty(&envelope()).unwrap_or_default(),
            Output::Yaml => yaml::yaml(&envelope()).unwrap_or_default().trim_end().to_owned(),
            Output::Text | Output::Table => match failure.details() {
                Some(details) => format!("{details}\n\n{}", failure.text()),
                None => failure.text(),
            },
        };
        self.note(&text);
    }
}

impl std::fmt::Debug for Ui {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ui").field("output", &self.output).finish_non_exhaustive()
    }
}

/// Formats an object as one line per scalar, including those one level down.
pub fn facts(value: &Value) -> String {
    grid::pairs(value)
}

fn value_of<T: Serialize + ?Sized>(value: &T) -> Result<Value, Failure> {
    serde_json::to_value(value).map_err(|error| unwritten(&error))
}

/// Formats a value as YAML, for commands that print YAML for people.
pub fn as_yaml(value: &Value) -> Result<String, Failure> {
    yaml::yaml(value)
}

fn unwritten(error: &serde_json::Error) -> Failure {
    Failure::new(Exit::Failed, format!("the answer cannot be written: {error}"))
}

fn told(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(Exit::Failed, format!("cannot write the answer: {error}")))
        }
        _ => Ok(()),
    }
}

/// Sanitizes external text of several lines.
pub fn clean(text: &str) -> String {
    let safe = |c: char| match c {
        '\n' | '\t' => c,
        c if c.is_control() || turns(c) => '\u{fffd}',
        c => c,
    };
    text.chars().map(safe).collect()
}

/// Sanitizes external text to one line of at most `width` characters.
pub fn line(text: &str, width: usize) -> String {
    let first = clean(text.trim().lines().next().unwrap_or_default()).replace('\t', " ");
    if first.chars().count() <= width {
        return first;
    }
    first.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Whether a character is invisible or changes the direction of writing.
fn turns(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Formats rows in aligned columns; the last column is not padded.
pub fn table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let head = head.map(str::to_owned);
    let all: Vec<_> = std::iter::once(&head).chain(rows).map(<[String; N]>::as_slice).collect();
    aligned(&all)
}

/// Aligns cells in columns as wide as their widest cell.
fn aligned(rows: &[&[String]]) -> String {
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
