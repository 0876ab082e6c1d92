//! All output of the command line. Nothing else prints.
//!
//! Text from tools and servers is written so that it cannot move the cursor, colour the screen or turn
//! the direction of writing.

use std::io::{self, Write};

use clap::ValueEnum;
use serde::Serialize;

use super::failure::{Exit, Failure};

/// How answers are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Text,
    /// For programs: the server's own JSON.
    Json,
}

/// Standard output and standard error.
pub struct Ui {
    output: Output,
    out: Box<dyn Write>,
    err: Box<dyn Write>,
}

impl Ui {
    /// Onto the process's own streams.
    pub fn new(output: Output) -> Self {
        Self::onto(output, io::stdout(), io::stderr())
    }

    /// Onto these.
    pub fn onto(output: Output, out: impl Write + 'static, err: impl Write + 'static) -> Self {
        Self { output, out: Box::new(out), err: Box::new(err) }
    }

    /// The answer of a command: the value as JSON, or its text for people.
    ///
    /// # Errors
    /// Where it cannot be written. A reader that went away is no error.
    pub fn answer<T: Serialize + ?Sized>(
        &mut self,
        value: &T,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let text = match self.output {
            Output::Text => text(),
            Output::Json => serde_json::to_string_pretty(value)
                .map_err(|error| Failure::new(Exit::Failed, error.to_string()))?,
        };
        let line = if text.is_empty() || text.ends_with('\n') { text } else { text + "\n" };
        told(self.out.write_all(line.as_bytes()).and_then(|()| self.out.flush()))
    }

    /// A remark for people, beside the answer.
    pub fn note(&mut self, text: &str) {
        // Where even this cannot be written there is nobody to tell.
        let _unheard = writeln!(self.err, "{text}");
    }

    /// A failure.
    pub fn failure(&mut self, failure: &Failure) {
        let text = match self.output {
            Output::Json => {
                let envelope = serde_json::json!({ "error": failure });
                serde_json::to_string_pretty(&envelope).unwrap_or_default()
            }
            Output::Text => match failure.faults() {
                Some(faults) => format!("{faults}\n\n{}", failure.text()),
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

fn told(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(Exit::Failed, format!("cannot write the answer: {error}")))
        }
        _ => Ok(()),
    }
}

/// Text from outside, of several lines.
pub(super) fn clean(text: &str) -> String {
    let safe = |c: char| match c {
        '\n' | '\t' => c,
        c if c.is_control() || turns(c) => '\u{fffd}',
        c => c,
    };
    text.chars().map(safe).collect()
}

/// Text from outside, as one line of at most `width` characters.
pub(super) fn line(text: &str, width: usize) -> String {
    let first = clean(text.trim().lines().next().unwrap_or_default()).replace('\t', " ");
    if first.chars().count() <= width {
        return first;
    }
    first.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Marks that turn the direction of writing, or hide themselves.
fn turns(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Rows in aligned columns, the last one as wide as it is.
pub(super) fn table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let head = head.map(str::to_owned);
    let all: Vec<_> = std::iter::once(&head).chain(rows).collect();
    let width = |column: usize| {
        let cells = all.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..N).map(width).collect();
    let write = |row: &&[String; N]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    all.iter().map(write).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
