//! Positions in the operator's file, and diagnostics with position, message and help.

use std::fmt;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};

/// A line and a column, from 1; 0 outside a file. All positions compare equal, so that rules
/// compare without their positions.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct FilePosition {
    /// Line number, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl FilePosition {
    /// Returns the position if it is in a file.
    pub fn if_in_file(self) -> Option<Self> {
        (self.line > 0).then_some(self)
    }
}

impl PartialEq for FilePosition {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for FilePosition {}
impl Hash for FilePosition {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A diagnostic about the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyDiagnostic {
    /// Position in the file.
    pub position: FilePosition,
    /// Description of the problem.
    pub message: String,
    /// Help on the fix; empty if it is obvious.
    pub help: String,
}

impl PolicyDiagnostic {
    pub(crate) fn new(
        position: FilePosition,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { position, message: message.into(), help: fix.into() }
    }
}

/// Quotes an operator's text in an error: truncated and escaped.
pub(crate) fn quote_excerpt(text: &str) -> String {
    const MOST: usize = 60;
    let cut: String = text.chars().take(MOST).collect();
    let more = if cut.len() < text.len() { "…" } else { "" };
    format!("`{}{more}`", cut.escape_debug())
}
