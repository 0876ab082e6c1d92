//! What is wrong with a configuration, where, and what to do; drawn with the line and a caret.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tool::Problem;

/// The widest piece of a source line that is shown, in characters.
const WINDOW: usize = 100;

/// A place in a file: line and column from 1, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
}

impl Place {
    /// The top of a file, for what is wrong with the file as a whole.
    pub const TOP: Self = Self { line: 1, column: 1 };
    /// No place: for what is wrong with a flag.
    pub const NONE: Self = Self { line: 0, column: 0 };
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The file.
    pub file: PathBuf,
    /// Where in it.
    #[serde(flatten)]
    pub place: Place,
    /// What is wrong.
    pub message: String,
    /// What to do, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// The line, where it may be shown: one that holds a secret may not.
    #[serde(skip)]
    excerpt: Option<String>,
}

impl Fault {
    /// Without a line to show.
    pub fn new(file: &Path, place: Place, message: impl Into<String>) -> Self {
        let (file, message) = (file.to_owned(), message.into());
        Self { file, place, message, fix: None, excerpt: None }
    }

    /// Of a flag rather than a file.
    pub fn flag(flag: &str, message: impl Into<String>) -> Self {
        Self::new(Path::new(flag), Place::NONE, message)
    }

    /// Adds what to do.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// The file, with line and column where there are any.
    fn origin(&self) -> String {
        let Place { line, column } = self.place;
        match line {
            0 => self.file.display().to_string(),
            _ => format!("{}:{line}:{column}", self.file.display()),
        }
    }

    /// Adds the line, from the whole text of the file.
    #[must_use]
    pub(crate) fn excerpt(mut self, text: &str) -> Self {
        let line = text.lines().nth(self.place.line.saturating_sub(1)).unwrap_or_default();
        self.excerpt = (!line.trim().is_empty() && !tells_secret(line)).then(|| line.to_owned());
        self
    }
}

/// Whether a line looks as if it held a secret: it is then not drawn, since faults are logged.
fn tells_secret(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    [
        "bearer",
        "token",
        "secret",
        "password",
        "passwd",
        "authorization",
        "api_key",
        "apikey",
        "api-key",
    ]
    .iter()
    .any(|word| line.contains(word))
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { line, column } = self.place;
        write!(f, "{}: {}", self.origin(), self.message)?;
        let margin = " ".repeat(line.to_string().len());
        if let Some(excerpt) = &self.excerpt {
            let (shown, before) = window(excerpt, column);
            write!(f, "\n{margin} |\n{line} | {shown}\n{margin} | {}^", " ".repeat(before))?;
        }
        match &self.fix {
            Some(fix) => write!(f, "\n{margin} = {fix}"),
            None => Ok(()),
        }
    }
}

/// The part of a line around a column, with nothing in it that moves the cursor, and how many
/// characters stand before the column.
fn window(line: &str, column: usize) -> (String, usize) {
    let at = column.saturating_sub(1);
    let start = if at < WINDOW * 3 / 4 { 0 } else { at - WINDOW / 2 };
    let plain = |c: char| if c.is_control() || is_bidi(c) { ' ' } else { c };
    let mut shown: String = line.chars().skip(start).take(WINDOW).map(plain).collect();
    let mut before = at.saturating_sub(start);
    if start > 0 {
        shown.insert(0, '…');
        before += 1;
    }
    if line.chars().count() > start + WINDOW {
        shown.push('…');
    }
    (shown, before)
}

/// Characters that turn the direction of writing: a line must not lie about itself.
fn is_bidi(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

impl From<&Fault> for Problem {
    fn from(fault: &Fault) -> Self {
        Self { place: fault.origin(), message: fault.message.clone(), fix: fault.fix.clone() }
    }
}

/// All that is wrong, in the order of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Faults(pub Vec<Fault>);

impl Faults {
    /// One fault, and nothing else known.
    pub fn one(fault: Fault) -> Self {
        Self(vec![fault])
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            let gap = if index == 0 { "" } else { "\n\n" };
            write!(f, "{gap}{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

#[cfg(test)]
mod tests;
