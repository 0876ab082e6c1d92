//! Definitions of toolsets: which items of which sources one offers, under which names, and who may
//! use it.

use std::collections::{BTreeMap, BTreeSet};

use identity::{RightsClass, RoleRecord};
use serde::{Deserialize, Serialize};
use tool::SourceName;
use tool::confusable_text::confusable_skeletons;
use tool::identifier::validate_line;

use crate::{ItemPattern, Policy, ToolPattern};

/// The grant to every caller.
pub const GRANT_TO_ALL: &str = "*";
/// Maximum number of entries of one list.
const MAX_ENTRIES: usize = 1_000;
/// Maximum number of roles.
const MAX_ROLES: usize = 64;
/// Maximum length of a title in bytes.
const MAX_TITLE_BYTES: usize = 256;
/// Maximum length of a description in bytes.
const MAX_DESCRIPTION_BYTES: usize = 4_096;
/// Maximum length of another name; all model providers accept as many characters.
const MAX_ALIAS_CHARS: usize = 64;

/// A named selection of items of several sources, and the roles that may use it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolsetDefinition {
    /// Name, which is also the path below `/mcp/`.
    pub name: SourceName,
    /// Title for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Description, which MCP clients receive as instructions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Roles that may use it; `*` for every caller. Nobody may use one without roles.
    #[serde(default)]
    pub roles: BTreeSet<String>,
    /// Patterns of its tools.
    #[serde(default)]
    pub tools: Vec<ToolsetEntry>,
    /// Patterns of its prompts.
    #[serde(default)]
    pub prompts: Vec<ToolsetEntry>,
    /// Patterns of its resources and templates.
    #[serde(default)]
    pub resources: Vec<ToolsetEntry>,
    /// Patterns of its skills.
    #[serde(default)]
    pub skills: Vec<ToolsetEntry>,
}

/// A pattern of a toolset. Other names and texts are for a pattern that names one tool or prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolsetEntry {
    /// The pattern.
    pub pattern: String,
    /// Name under which the item is offered, if not its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Title instead of the item's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description instead of the item's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

impl ToolsetEntry {
    /// Creates an entry without other names and texts.
    pub fn from_pattern(pattern: impl Into<String>) -> Self {
        Self { pattern: pattern.into(), ..Self::default() }
    }

    /// Returns true if it changes the name or a text of its item.
    pub fn has_overrides(&self) -> bool {
        self.name.is_some() || self.title.is_some() || self.description.is_some()
    }
}

/// Kinds of items of a toolset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolsetItemKind {
    /// A tool.
    Tool,
    /// A prompt.
    Prompt,
    /// A resource or a template.
    Resource,
    /// A skill.
    Skill,
}

impl ToolsetItemKind {
    /// Returns the word as it appears in responses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
            Self::Skill => "skill",
        }
    }
}

/// An error of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolsetDefinitionError {
    /// Name of the faulty field.
    pub field: &'static str,
    /// Message about it.
    pub message: String,
    /// Remedy.
    pub help: &'static str,
}

impl ToolsetDefinition {
    /// Returns the entries of one kind of items.
    pub fn entries_of(&self, kind: ToolsetItemKind) -> &[ToolsetEntry] {
        match kind {
            ToolsetItemKind::Tool => &self.tools,
            ToolsetItemKind::Prompt => &self.prompts,
            ToolsetItemKind::Resource => &self.resources,
            ToolsetItemKind::Skill => &self.skills,
        }
    }

    /// Checks names, patterns, texts and their number.
    ///
    /// # Errors
    /// The first error.
    pub fn validate(&self) -> Result<(), ToolsetDefinitionError> {
        let error = |field, message, help| Err(ToolsetDefinitionError { field, message, help });
        if let Err(fault) = SourceName::from_operator(self.name.as_str()) {
            return error("name", fault.to_string(), "choose another name for the toolset");
        }
        check_line("title", &self.title, MAX_TITLE_BYTES)?;
        check_text("description", &self.description)?;
        let is_role = |role: &String| role == GRANT_TO_ALL || RoleRecord::is_valid_name(role);
        if let Some(role) = self.roles.iter().find(|role| !is_role(role)) {
            let shown: String = role.chars().take(64).collect();
            let message = format!("invalid role `{}`", shown.escape_debug());
            return error("roles", message, "use names of roles, or `*` for every caller");
        }
        if self.roles.len() > MAX_ROLES {
            return error("roles", "more than 64 roles".to_owned(), "use `*` or fewer roles");
        }
        for (field, kind) in [
            ("tools", ToolsetItemKind::Tool),
            ("prompts", ToolsetItemKind::Prompt),
            ("resources", ToolsetItemKind::Resource),
            ("skills", ToolsetItemKind::Skill),
        ] {
            check_entries(field, kind, self.entries_of(kind))?;
        }
        Ok(())
    }
}

fn check_line(field: &'static str, text: &str, limit: usize) -> Result<(), ToolsetDefinitionError> {
    if text.is_empty() {
        return Ok(());
    }
    validate_line(text, limit).map_err(|fault| ToolsetDefinitionError {
        field,
        message: format!("the text {fault}"),
        help: "use one line of visible characters",
    })
}

/// Checks a description, which may have several lines.
fn check_text(field: &'static str, text: &str) -> Result<(), ToolsetDefinitionError> {
    if text.len() > MAX_DESCRIPTION_BYTES {
        let message = format!("the description has more than {MAX_DESCRIPTION_BYTES} bytes");
        return Err(ToolsetDefinitionError { field, message, help: "shorten it" });
    }
    text.lines().try_for_each(|line| check_line(field, line, MAX_DESCRIPTION_BYTES))
}

fn check_entries(
    field: &'static str,
    kind: ToolsetItemKind,
    entries: &[ToolsetEntry],
) -> Result<(), ToolsetDefinitionError> {
    let error = |message: String, help| Err(ToolsetDefinitionError { field, message, help });
    if entries.len() > MAX_ENTRIES {
        let message = format!("{} patterns are too many", entries.len());
        return error(message, "use at most 1,000; combine names with `*`");
    }
    let mut names: BTreeMap<String, &str> = BTreeMap::new();
    for entry in entries {
        let is_exact = match kind {
            ToolsetItemKind::Tool => ToolPattern::new(entry.pattern.as_str())
                .map(|pattern| pattern.exact_name().is_some_and(|name| name.contains('.'))),
            ToolsetItemKind::Prompt | ToolsetItemKind::Resource | ToolsetItemKind::Skill => {
                ItemPattern::new(entry.pattern.as_str()).map(|pattern| pattern.is_exact())
            }
        };
        let is_exact = match is_exact {
            Ok(is_exact) => is_exact,
            Err(message) => return error(message, "correct the pattern"),
        };
        if !entry.has_overrides() {
            continue;
        }
        let pattern = entry.pattern.escape_debug();
        if matches!(kind, ToolsetItemKind::Resource | ToolsetItemKind::Skill) {
            let message = format!("`{pattern}` has another name or text");
            return error(message, "only tools and prompts have other names and texts");
        }
        if !is_exact {
            let message = format!("`{pattern}` has another name or text, and may be several items");
            return error(message, "name one item as `SOURCE.NAME`");
        }
        check_line(field, entry.title.as_deref().unwrap_or_default(), MAX_TITLE_BYTES)?;
        check_text(field, entry.description.as_deref().unwrap_or_default())?;
        let Some(name) = &entry.name else { continue };
        if !is_alias(name) {
            let shown: String = name.chars().take(64).collect();
            let message = format!("invalid name `{}`", shown.escape_debug());
            return error(message, "use 1 to 64 letters, digits, `_` and `-`");
        }
        for look in confusable_skeletons(name) {
            if let Some(other) = names.insert(look, &entry.pattern)
                && other != entry.pattern
            {
                let message =
                    format!("`{pattern}` and `{}` have the name `{name}`", other.escape_debug());
                return error(message, "give each item a name of its own");
            }
        }
    }
    Ok(())
}

fn is_alias(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=MAX_ALIAS_CHARS).contains(&name.len()) && name.bytes().all(fits)
}

impl Policy {
    /// Returns true if these roles of a toolset grant it to a rights class. One that acts for another
    /// user needs a grant to itself too.
    pub fn grants_toolset(&self, roles: &BTreeSet<String>, rights: &RightsClass) -> bool {
        let default = self.document().default_role.as_ref().map(|role| role.text.as_str());
        let default = default.filter(|_| rights.roles().is_empty());
        let mut held = rights.roles().iter().map(String::as_str).chain(default);
        let granted = roles.contains(GRANT_TO_ALL) || held.any(|role| roles.contains(role));
        granted && rights.actor().is_none_or(|actor| self.grants_toolset(roles, actor))
    }
}

#[cfg(test)]
mod tests {
    use tool::SourceName;

    use super::{ToolsetDefinition, ToolsetEntry};

    fn definition() -> ToolsetDefinition {
        ToolsetDefinition {
            name: SourceName::new("support").unwrap(),
            title: "Support".to_owned(),
            description: String::new(),
            roles: ["support".to_owned()].into(),
            tools: vec![
                ToolsetEntry::from_pattern("docs.*"),
                ToolsetEntry::from_pattern("group:read"),
            ],
            prompts: vec![ToolsetEntry::from_pattern("docs.greet")],
            resources: vec![ToolsetEntry::from_pattern("docs.file:///*")],
            skills: Vec::new(),
        }
    }

    fn renamed(pattern: &str, name: &str) -> ToolsetEntry {
        ToolsetEntry { name: Some(name.to_owned()), ..ToolsetEntry::from_pattern(pattern) }
    }

    #[test]
    fn a_definition_is_checked_as_a_whole() {
        definition().validate().unwrap();
        let with = |change: &dyn Fn(&mut ToolsetDefinition)| {
            let mut changed = definition();
            change(&mut changed);
            changed.validate()
        };
        with(&|it| it.tools.push(renamed("crm.search", "find"))).unwrap();
        let field = |change: &dyn Fn(&mut ToolsetDefinition)| with(change).unwrap_err().field;
        assert_eq!(field(&|it| it.name = SourceName::new("server-card").unwrap()), "name");
        assert_eq!(field(&|it| it.title = "a\nb".to_owned()), "title");
        assert_eq!(field(&|it| it.roles.extend(["a b".to_owned()])), "roles");
        for wrong in [
            renamed("crm.*", "find"),
            renamed("search", "find"),
            renamed("crm.search", "a.b"),
            renamed("crm.search", ""),
            ToolsetEntry::from_pattern("a b"),
        ] {
            assert_eq!(field(&|it| it.tools.push(wrong.clone())), "tools", "{wrong:?}");
        }
        // Names that look alike, and other names of what has no name.
        let alike = |it: &mut ToolsetDefinition| {
            it.tools.extend([renamed("a.x", "find_l"), renamed("b.x", "find_I")]);
        };
        assert_eq!(field(&alike), "tools");
        assert_eq!(field(&|it| it.resources.push(renamed("docs.a:b", "x"))), "resources");
    }
}
