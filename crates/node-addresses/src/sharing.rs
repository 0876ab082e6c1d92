//! Names of tools that several nodes may have.

use std::collections::BTreeSet;

/// Names that the operator lets nodes share, whatever their owners say: whole names, or a beginning and
/// `*`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Sharing(pub BTreeSet<String>);

impl Sharing {
    /// Whether a pattern can be used.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(pattern: &str) -> Result<(), String> {
        let begins = pattern.strip_suffix('*').unwrap_or(pattern);
        let fits = !pattern.is_empty() && !begins.contains('*');
        let told = || format!("`{}` is no name, nor a beginning and `*`", pattern.escape_debug());
        if fits { Ok(()) } else { Err(told()) }
    }

    /// Whether nodes may share this name.
    pub fn allows(&self, name: &str) -> bool {
        self.0.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(begins) => name.starts_with(begins),
            None => pattern == name,
        })
    }
}
