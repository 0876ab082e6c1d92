//! Defines the type for secret text, such as keys and tokens, which is never printed.

use std::fmt;

/// A secret without `Debug` of its content, `Display` or `Serialize`. It is exposed only where it
/// is used. It can be hashed, so that a source changes with its secrets; the hash stays in this
/// process.
#[derive(Clone, Hash)]
pub struct Secret(Box<str>);

impl Secret {
    /// Wraps a secret text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into().into_boxed_str())
    }

    /// Returns the text. Each use is to be checked in review.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn debug_shows_nothing() {
        assert_eq!(format!("{:?}", super::Secret::new("hunter2")), "Secret(…)");
    }
}
