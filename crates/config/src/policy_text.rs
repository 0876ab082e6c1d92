//! The policy of a configuration file as its text.

use std::path::Path;

use crate::config_error::ConfigError;
use crate::file_text;

/// Reads the lines of the key `policy` with the comments between them; empty without one. Blocks on the disk.
///
/// # Errors
/// The file cannot be read.
pub fn read_policy_text(file: &Path) -> Result<String, ConfigError> {
    Ok(policy_lines(&file_text::read_text(file)?))
}

/// Returns the lines from the key `policy` until the next key at the left margin.
fn policy_lines(text: &str) -> String {
    let is_inside = |line: &&str| line.trim().is_empty() || line.starts_with([' ', '\t', '-', '#']);
    let mut lines = text.split_inclusive('\n').skip_while(|line| !line.starts_with("policy:"));
    let Some(key) = lines.next() else { return String::new() };
    let body: String = lines.take_while(is_inside).collect();
    // Comments before the next key belong to it.
    let end = body.lines().rev().take_while(|line| {
        let line = line.trim_end();
        line.is_empty() || line.starts_with('#')
    });
    let kept = body.lines().count().saturating_sub(end.count());
    let body: String = body.split_inclusive('\n').take(kept).collect();
    format!("{key}{body}")
}

#[cfg(test)]
mod tests {
    use super::policy_lines;

    #[test]
    fn the_policy_ends_where_the_next_key_begins() {
        let policy = "policy:\n  # Nobody deletes.\n  deny:\n  - delete\n\n  read_only: true\n";
        for (before, after) in [
            ("version: 1\n", "\n# Limits.\nlimits: {}\n"),
            ("", ""),
            ("# policy: none\nsources: []\n", "\n\n"),
        ] {
            let text = format!("{before}{policy}{after}");
            assert_eq!(policy_lines(&text), policy, "{text}");
        }
        assert_eq!(policy_lines("version: 1\n"), "");
        assert_eq!(policy_lines("version: 1\npolicy: { deny: [a] }"), "policy: { deny: [a] }");
    }
}
