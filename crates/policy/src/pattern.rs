//! Which tools a rule speaks of.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Facts;

/// A tool's name, where `*` stands for any run of characters; or `source:NAME` for a whole source.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern(String);

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// Where it is empty or holds what no name can hold.
    pub fn new(text: impl Into<String>) -> Result<Self, String> {
        let text = text.into();
        let fits = |c: char| c.is_ascii_alphanumeric() || "_.-*:".contains(c);
        if text.is_empty() || !text.chars().all(fits) {
            return Err(format!(
                "`{}` is no pattern: use a tool's name, `*` for any characters, or `source:NAME`",
                text.escape_debug()
            ));
        }
        Ok(Self(text))
    }

    /// Whether it speaks of this tool.
    pub fn fits(&self, tool: &Facts<'_>) -> bool {
        match self.0.strip_prefix("source:") {
            Some(source) => glob(source.as_bytes(), tool.source.as_bytes()),
            None => glob(self.0.as_bytes(), tool.name.as_bytes()),
        }
    }
}

/// Linear in the name for each star: the last star is the only one that is ever gone back to.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
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

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl TryFrom<String> for Pattern {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        Self::new(text)
    }
}
impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.0
    }
}

#[cfg(test)]
mod tests {
    use super::{Pattern, glob};

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
            assert_eq!(glob(pattern.as_bytes(), text.as_bytes()), fits, "{pattern} {text}");
        }
        assert!(Pattern::new("").is_err());
        assert!(Pattern::new("a b").is_err());
    }
}
