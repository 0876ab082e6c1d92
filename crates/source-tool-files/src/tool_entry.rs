//! Parser of one entry of a tool file, validated as the tool-file registry requires.

use tool::{Json, JsonError, JsonLimits, Tool, ToolName};

use super::document::{FileSettings, ToolEntry};
pub(super) use super::field_reader::EntryError;
use super::field_reader::{EntryFields, EntryResult, closest_field, escape_word};
use super::implementation::{self, FileToolImplementation, ImplementationRegistry};
use super::parameter_schema;
use super::trait_fields;

/// Parsed entry of a tool file.
#[derive(Debug)]
pub(super) struct ParsedEntry {
    /// Name of the tool; empty if it is unreadable.
    pub(super) name: String,
    /// Warnings that do not affect the tool.
    pub(super) warnings: Vec<EntryError>,
    /// The tool, or the error that rejects it.
    pub(super) result: EntryResult<(Tool, FileToolImplementation)>,
}

/// Known fields other than traits.
const TOOL_FIELDS: &[&str] = &[
    "name",
    "title",
    "description",
    "type",
    "handler",
    "builtin_handler",
    "parameters",
    "implementation",
    "mock_response",
];
/// Known fields of other programs' tool files, which are ignored.
const IGNORED_FIELDS: &[&str] =
    &["examples", "returns", "tags", "metadata", "version", "mcp_server"];

impl ParsedEntry {
    pub(super) fn parse_entry(
        entry: &ToolEntry,
        settings: &FileSettings,
        handlers: &ImplementationRegistry,
    ) -> Self {
        let fields = EntryFields::from_object(&entry.json);
        let name = fields.get("name").and_then(|name| name.decode::<String>().ok());
        let name = name.or_else(|| entry.mapping_key.clone()).unwrap_or_default();
        let mut notes = Vec::new();
        let offer = validate_entry(entry)
            .and_then(|()| check_unknown_fields(&fields, &mut notes))
            .and_then(|()| build_tool(&name, entry, &fields, (settings, handlers)));
        if let Ok((tool, _)) = &offer {
            notes.extend(trait_fields::check_categories(&tool.traits, &handlers.own_categories));
        }
        Self { name, warnings: notes, result: offer }
    }
}

fn validate_entry(entry: &ToolEntry) -> EntryResult<()> {
    if entry.json.kind() != "object" {
        let message = format!("a tool must be a mapping; found {}", entry.json.kind());
        return Err(
            EntryError::new(message).with_help("give it `name`, `description` and `parameters`")
        );
    }
    // The position within the entry would mislead, because the entry of a YAML file was re-encoded.
    Json::parse(entry.json.bytes().clone(), JsonLimits::DEFINITION).map(drop).map_err(|error| {
        match error {
            JsonError::Malformed { reason, .. } => {
                EntryError::new(format!("the definition is {reason}"))
            }
            JsonError::TooLong { .. } | JsonError::WrongKind { .. } => {
                EntryError::new(format!("the definition is too large: {error}"))
            }
        }
    })
}

/// Reports unknown fields as warnings. If a field looks like a misspelled trait, the tool is
/// rejected: ignoring it could grant more access than intended.
fn check_unknown_fields(fields: &EntryFields, notes: &mut Vec<EntryError>) -> EntryResult<()> {
    for key in fields.keys() {
        let is_known = [TOOL_FIELDS, trait_fields::TRAIT_FIELDS, IGNORED_FIELDS]
            .iter()
            .any(|keys| keys.contains(&key));
        if is_known || key.starts_with("x-") {
            continue;
        }
        let error = EntryError::new(format!("unknown field `{}`", escape_word(key)));
        if let Some(similar_field) = closest_field(key, trait_fields::TRAIT_FIELDS) {
            return Err(error.with_help(format!("did you mean `{similar_field}`?")));
        }
        notes.push(error.with_help("it is ignored; remove it, or prefix it with `x-`"));
    }
    Ok(())
}

fn build_tool(
    name: &str,
    entry: &ToolEntry,
    fields: &EntryFields,
    (settings, handlers): (&FileSettings, &ImplementationRegistry),
) -> EntryResult<(Tool, FileToolImplementation)> {
    let tool_name = self::parse_name(name, entry, fields)?;
    let description = fields.string_field("description").unwrap_or_default();
    let description = description.filter(|text| !text.trim().is_empty()).ok_or_else(|| {
        EntryError::new(format!("Tool \"{name}\" must have a non-empty string \"description\""))
    })?;
    let input = parameter_schema::parse_parameters(name, fields);
    let implementation =
        implementation::parse_implementation(name, fields, &input, (settings, handlers))?;
    let input = match &implementation.own_schema {
        Some(own) => own.clone(),
        None => input?,
    };
    let base_traits = implementation.traits.clone();
    let mut traits =
        trait_fields::parse_traits(fields, base_traits, settings.default_timeout.as_ref())?;
    if implementation.own_schema.is_some() {
        traits = trait_fields::combine_stricter(traits, &implementation.traits);
    }
    settings.permissions.apply_to(&mut traits);
    let tool = Tool {
        name: tool_name,
        title: fields.string_field("title")?,
        description,
        input_schema: input,
        output_schema: None,
        traits,
        raw_definition: entry.json.clone(),
    };
    Ok((tool, implementation))
}

fn parse_name(name: &str, entry: &ToolEntry, fields: &EntryFields) -> EntryResult<ToolName> {
    let name_field = fields.get("name");
    let is_text = name_field.is_none_or(|stated| stated.kind() == "string");
    if name.trim().is_empty() || !is_text {
        return Err(EntryError::new("Tool must have a non-empty string \"name\""));
    }
    if let Some(key) = entry.mapping_key.as_deref().filter(|key| *key != name) {
        let message = format!("the tool's key is `{}`, but its `name` differs", key.escape_debug());
        return Err(EntryError::new(message).with_help("remove `name`, or set it to the key"));
    }
    ToolName::new(name).map_err(|error| EntryError::new(error.to_string()))
}

#[cfg(test)]
mod tests;
