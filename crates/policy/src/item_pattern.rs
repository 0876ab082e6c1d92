//! Patterns that select items for a toolset: tools as rules select them, other items by their names.

use crate::tool_pattern::glob_matches;
use crate::tool_selector::{ClassifiedTool, ToolSelector};
use crate::{Policy, ToolFacts, ToolPattern};

/// Maximum number of characters of a pattern; a URI may be long.
const MAX_PATTERN_CHARS: usize = 1_024;
/// Prefix of a pattern for all items of a source.
const SOURCE_PREFIX: &str = "source:";

/// A compiled list of tool patterns, under the groups of one policy.
#[derive(Debug)]
pub struct ToolMatcher(ToolSelector);

impl Policy {
    /// Compiles tool patterns. A group that the policy does not know has no members.
    pub fn compile_matcher(&self, patterns: &[ToolPattern]) -> ToolMatcher {
        ToolMatcher(self.tool_groups().compile_patterns(patterns))
    }
}

impl ToolMatcher {
    /// Returns true if a pattern matches the tool.
    pub fn matches_tool(&self, facts: ToolFacts<'_>) -> bool {
        self.0.matches_tool(&ClassifiedTool::from_facts(facts))
    }
}

/// A pattern of prompts, resources or skills: `SOURCE.NAME` or `SOURCE.URI`, in which `*` stands for
/// any characters; `source:NAME` for a whole source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemPattern(String);

impl ItemPattern {
    /// Parses and checks a pattern.
    ///
    /// # Errors
    /// If it is empty, longer than 1,024 characters, or contains a space or an invisible character.
    pub fn new(text: impl Into<String>) -> Result<Self, String> {
        let text = text.into();
        let name = text.strip_prefix(SOURCE_PREFIX).unwrap_or(&text);
        let fits = |c: char| c.is_ascii_graphic() || (!c.is_ascii() && c.is_alphanumeric());
        if (1..=MAX_PATTERN_CHARS).contains(&name.chars().count()) && name.chars().all(fits) {
            return Ok(Self(text));
        }
        let shown: String = text.chars().take(64).collect();
        Err(format!(
            "invalid pattern `{}`: use `SOURCE.NAME` or `SOURCE.URI`, `*` for any characters, or \
             `source:NAME`",
            shown.escape_debug()
        ))
    }

    /// Returns true if it names exactly one item.
    pub fn is_exact(&self) -> bool {
        !self.0.contains('*') && !self.0.starts_with(SOURCE_PREFIX)
    }

    /// Returns true if it matches the item of this name or URI at its source.
    pub fn matches_item(&self, source: &str, own_name: &str) -> bool {
        match self.0.strip_prefix(SOURCE_PREFIX) {
            Some(pattern) => glob_matches(pattern, source),
            None => glob_matches(&self.0, &format!("{source}.{own_name}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ItemPattern;

    #[test]
    fn items_are_selected_by_source_and_name() {
        for (pattern, source, name, matches) in [
            ("docs.greet", "docs", "greet", true),
            ("docs.greet", "docs", "greets", false),
            ("docs.*", "docs", "file:///a", true),
            ("docs.file:///guide/*", "docs", "file:///guide/a", true),
            ("docs.file:///guide/*", "docs", "file:///other", false),
            ("docs.*", "docs2", "greet", false),
            ("source:docs", "docs", "greet", true),
            ("source:docs", "docs2", "greet", false),
            ("source:d*", "docs", "x", true),
        ] {
            let parsed = ItemPattern::new(pattern).unwrap();
            assert_eq!(parsed.matches_item(source, name), matches, "{pattern} {source} {name}");
        }
        for exact in [("a.b", true), ("a.*", false), ("source:a", false)] {
            assert_eq!(ItemPattern::new(exact.0).unwrap().is_exact(), exact.1);
        }
        for wrong in ["", "source:", "a b", "a\u{200b}", &"x".repeat(1_025)] {
            assert!(ItemPattern::new(wrong).unwrap_err().starts_with("invalid pattern"), "{wrong}");
        }
    }
}
