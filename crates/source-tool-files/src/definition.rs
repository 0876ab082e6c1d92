//! Parser of one entry of a tool file, validated as spec 2 requires.

use tool::{Json, JsonError, Limits, Tool, ToolName};

use super::document::{Entry, Settings};
pub(super) use super::fields::Fault;
use super::fields::{Fields, Result, likely};
use super::implementation::{self, Handlers, Implementation};
use super::parameters;
use super::traits;

/// Parsed entry of a tool file.
#[derive(Debug)]
pub(super) struct Definition {
    /// Name of the tool; empty if it is unreadable.
    pub(super) name: String,
    /// Warnings that do not affect the tool.
    pub(super) notes: Vec<Fault>,
    /// The tool, or the error that rejects it.
    pub(super) offer: Result<(Tool, Implementation)>,
}

/// Known fields other than traits.
const KEYS: &[&str] = &[
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
const PASSED_OVER: &[&str] = &["examples", "returns", "tags", "metadata", "version", "mcp_server"];

impl Definition {
    pub(super) fn read(entry: &Entry, settings: &Settings, handlers: &Handlers) -> Self {
        let fields = Fields::of(&entry.text);
        let name = fields.get("name").and_then(|name| name.read::<String>().ok());
        let name = name.or_else(|| entry.key.clone()).unwrap_or_default();
        let mut notes = Vec::new();
        let offer = checked(entry)
            .and_then(|()| unknown(&fields, &mut notes))
            .and_then(|()| offer(&name, entry, &fields, (settings, handlers)));
        if let Ok((tool, _)) = &offer {
            notes.extend(traits::unknown_category(&tool.traits, &handlers.categories));
        }
        Self { name, notes, offer }
    }
}

fn checked(entry: &Entry) -> Result<()> {
    if entry.text.kind() != "object" {
        let message = format!("a tool is a mapping; found {}", entry.text.kind());
        return Err(Fault::new(message).fix("give it `name`, `description` and `parameters`"));
    }
    // The position within the entry would mislead, because the entry of a YAML file was re-encoded.
    Json::check(entry.text.bytes().clone(), Limits::DEFINITION).map(drop).map_err(|error| {
        match error {
            JsonError::Malformed { reason, .. } => {
                Fault::new(format!("the definition is {reason}"))
            }
            JsonError::TooLong { .. } | JsonError::Kind { .. } => {
                Fault::new(format!("the definition is too long: {error}"))
            }
        }
    })
}

/// Reports unknown fields as warnings. If a field looks like a misspelled trait, the tool is
/// rejected: ignoring it could grant more access than intended.
fn unknown(fields: &Fields, notes: &mut Vec<Fault>) -> Result<()> {
    for key in fields.keys() {
        let known = [KEYS, traits::KEYS, PASSED_OVER].iter().any(|keys| keys.contains(&key));
        if known || key.starts_with("x-") {
            continue;
        }
        let shown: String = key.chars().take(64).collect();
        let fault = Fault::new(format!("unknown field `{}`", shown.escape_debug()));
        if let Some(meant) = likely(key, traits::KEYS) {
            return Err(fault.fix(format!("did you mean `{meant}`?")));
        }
        notes.push(fault.fix("it is passed over; take it out, or begin it with `x-`"));
    }
    Ok(())
}

fn offer(
    name: &str,
    entry: &Entry,
    fields: &Fields,
    (settings, handlers): (&Settings, &Handlers),
) -> Result<(Tool, Implementation)> {
    let valid = self::name(name, entry, fields)?;
    let description = fields.text("description").unwrap_or_default();
    let description = description.filter(|text| !text.trim().is_empty()).ok_or_else(|| {
        Fault::new(format!("Tool \"{name}\" must have a non-empty string \"description\""))
    })?;
    let input = parameters::read(name, fields);
    let implementation = implementation::read(name, fields, &input, (settings, handlers))?;
    let input = match &implementation.own {
        Some(own) => own.clone(),
        None => input?,
    };
    let base = implementation.traits.clone();
    let mut traits = traits::read(fields, base, settings.timeout.as_ref())?;
    if implementation.own.is_some() {
        traits = traits::stricter(traits, &implementation.traits);
    }
    settings.permissions.narrow(&mut traits);
    let tool = Tool {
        name: valid,
        title: fields.text("title")?,
        description,
        input,
        output: None,
        traits,
        received: entry.text.clone(),
    };
    Ok((tool, implementation))
}

fn name(name: &str, entry: &Entry, fields: &Fields) -> Result<ToolName> {
    let stated = fields.get("name");
    let is_text = stated.is_none_or(|stated| stated.kind() == "string");
    if name.trim().is_empty() || !is_text {
        return Err(Fault::new("Tool must have a non-empty string \"name\""));
    }
    if let Some(key) = entry.key.as_deref().filter(|key| *key != name) {
        let message =
            format!("the tool stands under `{}` and is named otherwise", key.escape_debug());
        return Err(Fault::new(message).fix("take `name` out, or make it the same as the key"));
    }
    ToolName::new(name).map_err(|error| Fault::new(error.to_string()))
}

#[cfg(test)]
mod tests;
