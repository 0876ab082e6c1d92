//! Which tools a rule speaks of.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Facts;

/// The most characters of a pattern: names have half as many, and each may stand beside a `*`.
const MAX: usize = 256;
/// What a pattern of a whole source begins with.
const SOURCE: &str = "source:";

/// A tool's name, where `*` stands for any run of characters; or `source:NAME` for a whole source.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern(String);

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// Where it is empty, longer than 256 characters, or holds what no name can hold: a rule that fits
    /// nothing is a slip, and a slip in a deny rule lets through what it should stop.
    pub fn new(text: impl Into<String>) -> Result<Self, String> {
        let text = text.into();
        let name = text.strip_prefix(SOURCE).unwrap_or(&text);
        let fits = |c: char| c.is_ascii_alphanumeric() || "_.-*".contains(c);
        if !(1..=MAX).contains(&name.len()) || !name.chars().all(fits) {
            let shown: String = text.chars().take(60).collect();
            let more = if shown.len() < text.len() { "…" } else { "" };
            return Err(format!(
                "`{}{more}` is no pattern: use a tool's name, `*` for any characters, or `source:NAME`",
                shown.escape_debug()
            ));
        }
        Ok(Self(text))
    }

    /// Whether it speaks of this tool.
    pub fn fits(&self, tool: &Facts<'_>) -> bool {
        match self.0.strip_prefix(SOURCE) {
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
    }

    #[test]
    fn what_could_fit_nothing_is_refused() {
        let longest = "x".repeat(256);
        let long = format!("{longest}x");
        for slip in ["", "a b", "source:", "sorce:a", "source:a:b", "a:b", "a/*", "é", &long] {
            let told = Pattern::new(slip).unwrap_err();
            assert!(told.contains("is no pattern") && told.len() < 200, "{told}");
        }
        for good in ["a.b", "*", "source:*", "source:a.b", "A_b-*.c", &longest] {
            assert!(Pattern::new(good).is_ok(), "{good}");
        }
    }
}
