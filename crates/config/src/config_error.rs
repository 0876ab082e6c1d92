//! Errors of a configuration: where each one is, its cause and its fix, printed with the line and a caret.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tool::Problem;
use tool::display_text::is_printable;

/// The most characters of a line that an excerpt shows.
const MAX_EXCERPT_CHARS: usize = 100;

/// A position in a file: line and column from 1, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct ConfigPosition {
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1.
    pub column: usize,
}

impl ConfigPosition {
    /// The start of a file, for an error of the file as a whole.
    pub const START: Self = Self { line: 1, column: 1 };
    /// No position, for an error of a flag, a variable or a file that cannot be read.
    pub const UNKNOWN: Self = Self { line: 0, column: 0 };
}

/// A file, and a position in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConfigLocation {
    /// The file; the variable's name for a value from the environment.
    pub file: PathBuf,
    /// The position in the file.
    pub position: ConfigPosition,
}

/// One error of a configuration, with its location and its fix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConfigError {
    /// The file; the name of a flag or a variable for an error of one.
    pub file: PathBuf,
    /// The position in the file.
    #[serde(flatten)]
    pub position: ConfigPosition,
    /// The cause of the error.
    pub message: String,
    /// The fix, where one is known.
    #[serde(rename = "fix", skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// The line; `None` where it may hold a secret.
    #[serde(skip)]
    excerpt: Option<String>,
}

impl ConfigError {
    /// Makes an error without an excerpt.
    pub fn new(file: &Path, position: ConfigPosition, message: impl Into<String>) -> Self {
        let (file, message) = (file.to_owned(), message.into());
        Self { file, position, message, help: None, excerpt: None }
    }

    /// Makes an error of a flag or of an environment variable.
    pub fn for_flag(flag: &str, message: impl Into<String>) -> Self {
        Self::new(Path::new(flag), ConfigPosition::UNKNOWN, message)
    }

    /// Adds the fix to the error.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Formats the file, with line and column where the position is known.
    fn format_location(&self) -> String {
        let ConfigPosition { line, column } = self.position;
        match line {
            0 => self.file.display().to_string(),
            _ => format!("{}:{line}:{column}", self.file.display()),
        }
    }

    /// Adds the line, from the whole text of the file, unless it may hold a secret.
    #[must_use]
    pub(crate) fn with_excerpt(mut self, text: &str) -> Self {
        let line = text.lines().nth(self.position.line.saturating_sub(1)).unwrap_or_default();
        self.excerpt =
            (!line.trim().is_empty() && !may_contain_secret(line)).then(|| line.to_owned());
        self
    }
}

/// Whether a line may hold a secret. Errors are logged, so its text is left out.
fn may_contain_secret(line: &str) -> bool {
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

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConfigPosition { line, column } = self.position;
        write!(f, "{}: {}", self.format_location(), self.message)?;
        let margin = " ".repeat(line.to_string().len());
        if let Some(excerpt) = &self.excerpt {
            let (shown, before) = excerpt_around(excerpt, column);
            write!(f, "\n{margin} |\n{line} | {shown}\n{margin} | {}^", " ".repeat(before))?;
        }
        match &self.help {
            Some(help) => write!(f, "\n{margin} help: {help}"),
            None => Ok(()),
        }
    }
}

/// Cuts the part of a line around a column, and counts the characters before that column. Control and invisible
/// characters become spaces.
fn excerpt_around(line: &str, column: usize) -> (String, usize) {
    let at = column.saturating_sub(1);
    let start = if at < MAX_EXCERPT_CHARS * 3 / 4 { 0 } else { at - MAX_EXCERPT_CHARS / 2 };
    let plain = |c: char| if is_printable(c) { c } else { ' ' };
    let mut shown: String = line.chars().skip(start).take(MAX_EXCERPT_CHARS).map(plain).collect();
    let mut before = at.saturating_sub(start);
    if start > 0 {
        shown.insert(0, '…');
        before += 1;
    }
    if line.chars().count() > start + MAX_EXCERPT_CHARS {
        shown.push('…');
    }
    (shown, before)
}

impl From<&ConfigError> for Problem {
    fn from(error: &ConfigError) -> Self {
        Self {
            location: error.format_location(),
            message: error.message.clone(),
            help: error.help.clone(),
        }
    }
}

/// All errors of a configuration, in the order of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl ConfigErrors {
    /// Makes a list of one error.
    pub fn single(error: ConfigError) -> Self {
        Self(vec![error])
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let gap = if index == 0 { "" } else { "\n\n" };
            write!(f, "{gap}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

#[cfg(test)]
mod tests;
