//! Tool names that several nodes may share.

use std::collections::BTreeSet;

/// Tool names that the operator allows nodes to share, regardless of their owners: full names, or a
/// prefix and `*`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SharedNames(pub BTreeSet<String>);

impl SharedNames {
    /// Checks a name pattern.
    ///
    /// # Errors
    /// The reason why the pattern is invalid.
    pub fn check_pattern(pattern: &str) -> Result<(), String> {
        let prefix = pattern.strip_suffix('*').unwrap_or(pattern);
        let is_valid = !pattern.is_empty() && !prefix.contains('*');
        let pattern_error =
            || format!("`{}` is neither a name nor a prefix with `*`", pattern.escape_debug());
        if is_valid { Ok(()) } else { Err(pattern_error()) }
    }

    /// Whether nodes may share the given name.
    pub fn allows_name(&self, name: &str) -> bool {
        self.0.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(begins) => name.starts_with(begins),
            None => pattern == name,
        })
    }
}
