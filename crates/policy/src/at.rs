//! Where a thing stands in the operator's file.

use std::fmt;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};

/// A line and a column, from 1; 0 where it stands in no file. It says nothing of what a rule is: rules
/// that differ in it only are the same rules.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct At {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

impl At {
    /// Whether it is a place at all.
    pub fn known(self) -> Option<Self> {
        (self.line > 0).then_some(self)
    }
}

impl PartialEq for At {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for At {}
impl Hash for At {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// What is wrong with a policy, where, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slip {
    /// Where it stands.
    pub at: At,
    /// What is wrong.
    pub message: String,
    /// What to do; empty where that is plain.
    pub fix: String,
}

impl Slip {
    pub(crate) fn new(at: At, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { at, message: message.into(), fix: fix.into() }
    }
}

/// An operator's word in an error: cut, and with nothing in it that moves the cursor.
pub(crate) fn shown(word: &str) -> String {
    const MOST: usize = 60;
    let cut: String = word.chars().take(MOST).collect();
    let more = if cut.len() < word.len() { "…" } else { "" };
    format!("`{}{more}`", cut.escape_debug())
}
