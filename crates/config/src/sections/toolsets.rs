//! Toolsets: named selections of items, each with an MCP endpoint of its own.

use std::collections::BTreeSet;

use policy::{ToolsetDefinition, ToolsetEntry};
use serde_json::{Value, json};
use tool::SourceName;

use super::source::SourceConfig;
use crate::ConfigPosition;
use crate::config_display::RedactedJson;
use crate::config_value::{ConfigValue, ValueParser};
use crate::error_collector::ErrorCollector;
use crate::section::{SchemaDefinitions, section, subsection};
use crate::value_parsers::{collect_items, list, mapping, text};
use crate::yaml_tree::{NodeKind, YamlKey, shorten_text};

/// A toolset of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolsetConfig {
    /// The definition.
    pub definition: ToolsetDefinition,
    /// The position in the file.
    pub position: ConfigPosition,
}

section! {
    /// A toolset: chosen items of several sources, at `/mcp/NAME`. It shows an item once its owner accepted its
    /// definition with `toolkeep toolset accept NAME`.
    #[derive(Default)]
    struct ToolsetKeys as "Toolset" {
        /// A title for people.
        title: String = text();
        /// A description, which MCP clients receive as instructions.
        description: String = text();
        /// The roles that may use it; `*` is every caller. Default: none, so that nobody may use it.
        roles: BTreeSet<String> = list(text()).map(collect_items::<BTreeSet<_>, _>);
        /// The tools: patterns as in the policy, or tools with another name or text.
        tools: Vec<ToolsetEntry> = list(ToolsetEntryParser);
        /// The prompts: patterns of `SOURCE.NAME`, or prompts with another name or text.
        prompts: Vec<ToolsetEntry> = list(ToolsetEntryParser);
        /// The resources and templates: patterns of `SOURCE.URI`.
        resources: Vec<ToolsetEntry> = list(ToolsetEntryParser);
        /// The skills: patterns of `SOURCE.URI`.
        skills: Vec<ToolsetEntry> = list(ToolsetEntryParser);
    }
}

section! {
    /// An item that a toolset offers under another name or with another text.
    #[derive(Default)]
    struct ToolsetItemKeys as "ToolsetItem" {
        /// The item, as `SOURCE.NAME`.
        pattern: String = text(), required "write the item as `pattern: SOURCE.NAME`";
        /// The name under which it is offered: letters, digits, `_` and `-`.
        name: Option<String> = text();
        /// The title instead of its own.
        title: Option<String> = text();
        /// The description instead of its own.
        description: Option<String> = text();
    }
}

/// Parses a pattern, or a mapping of an item with another name or text.
struct ToolsetEntryParser;

impl ValueParser for ToolsetEntryParser {
    type Output = ToolsetEntry;

    fn parse_value(&self, value: ConfigValue<'_>) -> Option<ToolsetEntry> {
        if !matches!(value.node.kind, NodeKind::Map(_)) {
            return value.parse_with(&text()).map(ToolsetEntry::from_pattern);
        }
        let ToolsetItemKeys { pattern, name, title, description } =
            value.parse_with(&subsection::<ToolsetItemKeys>())?;
        Some(ToolsetEntry { pattern, name, title, description })
    }
    fn json_schema(&self, definitions: &mut SchemaDefinitions) -> Value {
        let item = subsection::<ToolsetItemKeys>().json_schema(definitions);
        json!({ "anyOf": [{ "type": "string" }, item] })
    }
}

/// Parses toolsets by their names. One with an error is left out.
pub(crate) struct ToolsetMapParser;

/// Toolsets by their names.
pub(crate) fn toolsets() -> ToolsetMapParser {
    ToolsetMapParser
}

impl ValueParser for ToolsetMapParser {
    type Output = Vec<ToolsetConfig>;

    fn parse_value(&self, value: ConfigValue<'_>) -> Option<Vec<ToolsetConfig>> {
        let toolset = |(key, member): (&YamlKey, ConfigValue<'_>)| {
            let errors = member.file.errors;
            let before = errors.error_count();
            let keys = member.parse_with(&subsection::<ToolsetKeys>())?;
            let definition = read_definition(member, &key.text, keys)?;
            let position = member.node.position;
            (errors.error_count() == before).then_some(ToolsetConfig { definition, position })
        };
        Some(value.require_entries()?.filter_map(toolset).collect())
    }
    fn json_schema(&self, definitions: &mut SchemaDefinitions) -> Value {
        mapping(subsection::<ToolsetKeys>()).json_schema(definitions)
    }
}

fn read_definition(
    value: ConfigValue<'_>,
    name: &str,
    keys: ToolsetKeys,
) -> Option<ToolsetDefinition> {
    let ToolsetKeys { title, description, roles, tools, prompts, resources, skills } = keys;
    let parsed = SourceName::new(name).map_err(|error| value.report(error.to_string(), ""));
    let definition = ToolsetDefinition {
        name: parsed.ok()?,
        title,
        description,
        roles,
        tools,
        prompts,
        resources,
        skills,
    };
    if let Err(error) = definition.validate() {
        let place = value.find_member(error.field).unwrap_or(value);
        place.report(error.message, error.help);
        return None;
    }
    Some(definition)
}

/// Reports toolsets with the name of a source. They stay active: a source that is added does not take
/// the address of a toolset away.
pub(crate) fn report_taken_names(
    toolsets: &[ToolsetConfig],
    sources: &[SourceConfig],
    errors: &ErrorCollector<'_>,
) {
    for toolset in toolsets {
        let name = &toolset.definition.name;
        if sources.iter().any(|source| source.name == *name) {
            let message = format!("the name `{}` is that of a source", shorten_text(name.as_str()));
            let help =
                "rename one of them: the toolset has the address `/mcp/NAME`, and the source none";
            errors.report(toolset.position, message, help);
        }
    }
}

impl RedactedJson for Vec<ToolsetConfig> {
    fn to_redacted_json(&self) -> Value {
        let entries = |entries: &[ToolsetEntry]| -> Value {
            let entry = |entry: &ToolsetEntry| {
                if entry.has_overrides() { json!(entry) } else { json!(entry.pattern) }
            };
            entries.iter().map(entry).collect()
        };
        let toolset = |ToolsetConfig { definition: it, .. }: &ToolsetConfig| {
            let texts = [&it.title, &it.description].map(|text| (!text.is_empty()).then_some(text));
            let keys = json!({
                "title": texts[0], "description": texts[1], "roles": it.roles,
                "tools": entries(&it.tools), "prompts": entries(&it.prompts),
                "resources": entries(&it.resources), "skills": entries(&it.skills),
            });
            (it.name.to_string(), keys)
        };
        Value::Object(self.iter().map(toolset).collect())
    }
}

#[cfg(test)]
mod tests;
