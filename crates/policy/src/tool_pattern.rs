//! Patterns that select tools.

use std::fmt;

use serde::Serialize;

use crate::FilePosition;
use crate::diagnostics::quote_excerpt;

/// Maximum number of characters of a pattern: twice that of a name, as each may be next to a `*`.
const MAX_PATTERN_CHARS: usize = 256;
/// Prefix of a pattern for a whole source.
const SOURCE_PREFIX: &str = "source:";
/// Prefix of a group name.
const GROUP_PREFIX: &str = "group:";

/// A tool's name, in which `*` stands for any run of characters; `source:NAME` for a whole source;
/// `group:NAME` for a group.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(into = "String")]
pub struct ToolPattern {
    text: String,
    #[serde(rename = "at")]
    position: FilePosition,
}

/// Target of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatternTarget<'a> {
    /// A tool by its name.
    Name(&'a str),
    /// A source by its name.
    Source(&'a str),
    /// A group by name.
    Group(&'a str),
}

impl ToolPattern {
    /// Parses and checks a pattern.
    ///
    /// # Errors
    /// If it is empty, longer than 256 characters, or contains characters that no name has: a rule
    /// that matches nothing is a mistake, and a mistake in a deny rule admits what it should block.
    pub fn new(text: impl Into<String>) -> Result<Self, String> {
        let text = text.into();
        let name = [SOURCE_PREFIX, GROUP_PREFIX]
            .iter()
            .find_map(|kind| text.strip_prefix(kind))
            .unwrap_or(&text);
        let star = |c: char| c == '*' && !text.starts_with(GROUP_PREFIX);
        let fits = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c) || star(c);
        if !(1..=MAX_PATTERN_CHARS).contains(&name.len()) || !name.chars().all(fits) {
            return Err(format!(
                "invalid pattern {}: use a tool's name, `*` for any characters, `source:NAME`, or \
                 `group:NAME`",
                quote_excerpt(&text)
            ));
        }
        Ok(Self { text, position: FilePosition::default() })
    }

    /// Sets the position in the file.
    #[must_use]
    pub fn with_position(self, position: FilePosition) -> Self {
        Self { position, ..self }
    }

    /// Returns the position in the file.
    pub fn position(&self) -> FilePosition {
        self.position
    }

    /// Returns the pattern as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the name if the pattern names exactly one tool.
    pub fn exact_name(&self) -> Option<&str> {
        match self.target() {
            PatternTarget::Name(name) if !name.contains('*') => Some(name),
            _ => None,
        }
    }

    pub(crate) fn target(&self) -> PatternTarget<'_> {
        let (text, kind) = (self.text.as_str(), |kind| self.text.strip_prefix(kind));
        let source = kind(SOURCE_PREFIX).map(PatternTarget::Source);
        source
            .or_else(|| kind(GROUP_PREFIX).map(PatternTarget::Group))
            .unwrap_or(PatternTarget::Name(text))
    }
}

/// Matches a glob in time linear in the name for each star: only the last star is backtracked.
pub(crate) fn glob_matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            back = Some((p, t));
            p += 1;
        } else if pattern.get(p) == text.get(t) {
            p += 1;
            t += 1;
        } else if let Some((star, from)) = back {
            back = Some((star, from + 1));
            p = star + 1;
            t = from + 1;
        } else {
            return false;
        }
    }
    pattern.get(p..).is_some_and(|rest| rest.iter().all(|c| *c == b'*'))
}

impl fmt::Display for ToolPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
impl From<ToolPattern> for String {
    fn from(pattern: ToolPattern) -> Self {
        pattern.text
    }
}

#[cfg(test)]
mod tests {
    use super::{ToolPattern, glob_matches};

    #[test]
    fn stars() {
        for (pattern, text, fits) in [
            ("a.b", "a.b", true),
            ("a.b", "a.bc", false),
            ("a.*", "a.bc", true),
            ("*", "", true),
            ("*.b", "a.c.b", true),
            ("a*b*c", "aXbXbXc", true),
            ("a*b*c", "aXbXb", false),
            ("**x", "x", true),
        ] {
            assert_eq!(glob_matches(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn what_could_fit_nothing_is_refused() {
        let longest = "x".repeat(256);
        let long = format!("{longest}x");
        for slip in [
            "",
            "a b",
            "source:",
            "sorce:a",
            "source:a:b",
            "a:b",
            "group:",
            "group:a*",
            "a/*",
            "é",
            &long,
        ] {
            let told = ToolPattern::new(slip).unwrap_err();
            assert!(told.contains("invalid pattern") && told.len() < 200, "{told}");
        }
        for good in ["a.b", "*", "source:*", "source:a.b", "group:web", "A_b-*.c", &longest] {
            assert!(ToolPattern::new(good).is_ok(), "{good}");
        }
    }
}
