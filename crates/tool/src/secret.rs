//! A text that must not be seen.

use std::fmt;

/// A secret: no `Debug` of its content, no `Display`, no `Serialize`. Opened only where it is used.
#[derive(Clone)]
pub struct Secret(Box<str>);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into().into_boxed_str())
    }

    /// The text itself. Each call of this is a place to look at in review.
    pub fn open(&self) -> &str {
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
