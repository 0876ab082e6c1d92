//! Parses one definition, as received from a server, into an item of the catalog.
//!
//! An annotation that makes a tool look safer counts only if the operator trusts the server. An
//! annotation that makes it look more dangerous always counts. The definition itself stays as
//! received.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tool::{
    AccessScope, CallerType, EventDelivery, EventType, Json, JsonLimits, NameError, Problem,
    Prompt, Resource, SafetyLevel, SideEffect, SideEffects, SourceName, Tool, ToolName, ToolTraits,
};

use super::mcp_options::TraitOverrides;
use tool::display_text::escape_and_truncate;

/// Maximum characters of a name or URI in the location of a problem.
const MAX_NAME_CHARS: usize = 80;

/// Returns the name under which `own_name` of `source` is offered: `source.own`.
///
/// MCP servers choose generic names: `search` and `read_file` are common. The operator's name as
/// prefix prevents a server from shadowing another's tool. A dot inside `own_name` stays; the
/// executor stores `own_name` itself, so that no code splits the offered name again.
///
/// # Errors
/// Returns an error if the combined name is not valid in the catalog.
pub fn offered_name(source: &SourceName, own_name: &str) -> Result<ToolName, NameError> {
    if own_name.is_empty() {
        return Err(NameError::Empty);
    }
    ToolName::new(format!("{source}.{own_name}"))
}

/// Parsed definition and the name that its server uses for it.
#[derive(Debug)]
pub(super) struct ParsedDefinition<T> {
    pub(super) upstream_name: String,
    pub(super) item: T,
    /// Part of the definition that was left out.
    pub(super) problem: Option<Problem>,
}

#[derive(Deserialize)]
struct ToolFields<'a> {
    name: String,
    title: Option<String>,
    description: Option<String>,
    #[serde(rename = "inputSchema", borrow)]
    input: Option<&'a RawValue>,
    #[serde(rename = "outputSchema", borrow)]
    output: Option<&'a RawValue>,
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
}

/// Annotations of a tool. A hint that is not a boolean is ignored and does not affect the others.
#[derive(Debug, Default)]
struct ToolAnnotations {
    title: Option<String>,
    read_only: Option<bool>,
    destructive: Option<bool>,
    idempotent: Option<bool>,
    open_world: Option<bool>,
}

impl ToolAnnotations {
    fn from_raw(raw: &RawValue) -> Option<Self> {
        let fields: serde_json::Map<String, Value> = serde_json::from_str(raw.get()).ok()?;
        let hint = |key: &str| fields.get(key).and_then(Value::as_bool);
        Some(Self {
            title: fields.get("title").and_then(Value::as_str).map(str::to_owned),
            read_only: hint("readOnlyHint"),
            destructive: hint("destructiveHint"),
            idempotent: hint("idempotentHint"),
            open_world: hint("openWorldHint"),
        })
    }
}

/// Parses one tool. `index` identifies it if it has no name.
pub(super) fn parse_tool(
    source: &SourceName,
    overrides: &TraitOverrides,
    (index, raw): (usize, &RawValue),
) -> Result<ParsedDefinition<Tool>, Problem> {
    let received = validate_definition(raw)
        .map_err(|why| Problem::new(fallback_location("tool", index, raw), why))?;
    let text: ToolFields<'_> = serde_json::from_str(received.as_str())
        .map_err(|error| Problem::new(fallback_location("tool", index, raw), error.to_string()))?;
    let at = |why: String| Problem::new(item_location("tool", &text.name), why);
    let name = offered_name(source, &text.name).map_err(|why| {
        at(format!("is not offered: {why}"))
            .with_help("ask the server's author to use a valid MCP name")
    })?;
    let input =
        text.input.ok_or_else(|| at("is not offered: it has no `inputSchema`".to_owned()))?;
    let input = validate_schema(input)
        .map_err(|why| at(format!("is not offered: its `inputSchema` {why}")))?;
    let (output, problem) = match text.output.map(validate_schema).transpose() {
        Ok(output) => (output, None),
        Err(why) => (None, Some(at(format!("is offered without its `outputSchema`, which {why}")))),
    };
    let annotations = text.annotations.and_then(ToolAnnotations::from_raw).unwrap_or_default();
    let traits = derive_traits(overrides, &text.name, &annotations);
    let title = text.title.or(annotations.title);
    let description = text.description.unwrap_or_default();
    Ok(ParsedDefinition {
        upstream_name: text.name,
        item: Tool {
            name,
            title,
            description,
            input_schema: input,
            output_schema: output,
            traits,
            raw_definition: received,
        },
        problem,
    })
}

/// Parses the definition of one prompt.
pub(super) fn parse_prompt(
    source: &SourceName,
    (index, raw): (usize, &RawValue),
) -> Result<ParsedDefinition<Prompt>, Problem> {
    #[derive(Deserialize)]
    struct PromptFields {
        name: String,
    }
    let received = validate_definition(raw)
        .map_err(|why| Problem::new(fallback_location("prompt", index, raw), why))?;
    let PromptFields { name: own } = serde_json::from_str(received.as_str()).map_err(|error| {
        Problem::new(fallback_location("prompt", index, raw), error.to_string())
    })?;
    let name = offered_name(source, &own).map_err(|why| {
        Problem::new(item_location("prompt", &own), format!("is not offered: {why}"))
    })?;
    Ok(ParsedDefinition {
        upstream_name: own,
        item: Prompt { name, raw_definition: received },
        problem: None,
    })
}

/// Parses one resource or one resource template.
pub(super) fn parse_resource(
    is_template: bool,
    (index, raw): (usize, &RawValue),
) -> Result<ParsedDefinition<Resource>, Problem> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ResourceFields {
        uri: Option<String>,
        uri_template: Option<String>,
    }
    let kind = if is_template { "resource template" } else { "resource" };
    let at = |why: String| Problem::new(fallback_location(kind, index, raw), why);
    let received = validate_definition(raw).map_err(at)?;
    let text: ResourceFields =
        serde_json::from_str(received.as_str()).map_err(|error| at(error.to_string()))?;
    let uri = if is_template { text.uri_template } else { text.uri };
    let field = if is_template { "uriTemplate" } else { "uri" };
    let uri = uri
        .filter(|uri| !uri.is_empty())
        .ok_or_else(|| at(format!("is not offered: it has no `{field}`")))?;
    Ok(ParsedDefinition {
        upstream_name: uri.clone(),
        item: Resource { uri, is_template, raw_definition: received },
        problem: None,
    })
}

/// Parses one event type. One that its server sends to webhooks alone is not offered: the server would
/// learn the addresses of clients.
pub(super) fn parse_event(
    source: &SourceName,
    (index, raw): (usize, &RawValue),
) -> Result<ParsedDefinition<EventType>, Problem> {
    #[derive(Deserialize)]
    struct EventFields {
        name: String,
        delivery: Vec<String>,
    }
    let at = |why: String| Problem::new(fallback_location("event", index, raw), why);
    let received = validate_definition(raw).map_err(at)?;
    let EventFields { name: own, delivery } =
        received.decode().map_err(|error| at(format!("is not offered: {error}")))?;
    let name = offered_name(source, &own).map_err(|why| at(format!("is not offered: {why}")))?;
    let has = |mode: &str| delivery.iter().any(|it| it == mode);
    let delivery = EventDelivery { has_poll: has("poll"), has_push: has("push") };
    if delivery == EventDelivery::default() {
        let why = "is not offered: its `delivery` has neither `poll` nor `push`";
        let fix = "ask the server's author to support one of them (SEP-3415)";
        return Err(at(why.to_owned()).with_help(fix));
    }
    Ok(ParsedDefinition {
        upstream_name: own,
        item: EventType { name, delivery, raw_definition: received },
        problem: None,
    })
}

fn item_location(kind: &str, name: &str) -> String {
    format!("{kind} `{}`", escape_and_truncate(name, MAX_NAME_CHARS))
}

/// Location of a definition that cannot be parsed: its name if one can be found, else its number.
fn fallback_location(kind: &str, index: usize, raw: &RawValue) -> String {
    #[derive(Deserialize)]
    struct NameField {
        name: String,
    }
    serde_json::from_str::<NameField>(raw.get()).map_or_else(
        |_| format!("{kind} {}", index + 1),
        |NameField { name }| item_location(kind, &name),
    )
}

pub(super) fn validate_definition(raw: &RawValue) -> Result<Json, String> {
    let text = Bytes::copy_from_slice(raw.get().as_bytes());
    let json = Json::parse(text, JsonLimits::DEFINITION).and_then(Json::require_object);
    json.map_err(|why| format!("is not offered: {why}"))
}

/// Checks that a schema is an object and describes an object, since arguments have names.
fn validate_schema(raw: &RawValue) -> Result<Json, String> {
    #[derive(Deserialize)]
    struct TypeField {
        #[serde(rename = "type")]
        kind: Option<serde_json::Value>,
    }
    let json = Json::parse(Bytes::copy_from_slice(raw.get().as_bytes()), JsonLimits::DEFINITION)
        .and_then(Json::require_object)
        .map_err(|why| format!("cannot be used: {why}"))?;
    let TypeField { kind } = json.decode().map_err(|why| format!("cannot be used: {why}"))?;
    match kind {
        Some(kind) if kind != "object" => Err(format!(
            "is of type `{}`, not `object`",
            escape_and_truncate(&kind.to_string(), MAX_NAME_CHARS)
        )),
        _ => Ok(json),
    }
}

/// Derives the traits of a tool from its annotations. The operator's overrides take precedence.
///
/// MCP lets the client decide which servers to trust. From an untrusted server only a hint that
/// makes the tool stricter counts, which is `destructiveHint` alone. `openWorldHint` would grant
/// the tool what a policy allows to network tools.
fn derive_traits(marks: &TraitOverrides, own: &str, annotations: &ToolAnnotations) -> ToolTraits {
    let trusted = marks.trusts_annotations;
    let read_only =
        marks.read_only.contains(own) || (trusted && annotations.read_only == Some(true));
    let effects = match annotations.read_only {
        _ if read_only => SideEffects::read_only(),
        // MCP: the tool modifies its environment.
        Some(false) if trusted => SideEffects::Declared(vec![SideEffect::SystemState]),
        _ => SideEffects::Unknown,
    };
    // MCP: a tool that changes things is destructive unless it declares otherwise.
    let destroys = annotations.destructive.unwrap_or(annotations.read_only == Some(false));
    let mut scopes = marks.scopes.clone();
    if trusted && annotations.open_world == Some(true) && !scopes.contains(&AccessScope::Network) {
        scopes.push(AccessScope::Network);
    }
    let mut callers = vec![CallerType::Direct];
    callers.extend(marks.callable_by_programs.contains(own).then_some(CallerType::Chain));
    ToolTraits {
        min_level: marks.min_level.unwrap_or(tool::PermissionLevel::Guest),
        scopes,
        safety: marks.safety.unwrap_or(SafetyLevel::Safe),
        categories: marks.categories.clone(),
        effects,
        is_idempotent: marks.idempotent.contains(own)
            || (trusted && annotations.idempotent == Some(true)),
        is_destructive: marks
            .destructive
            .as_ref()
            .map_or(destroys && !read_only, |it| it.contains(own)),
        allowed_callers: callers,
        timeout: marks.timeout,
        trusted_annotations: trusted,
        ..ToolTraits::default()
    }
}

#[cfg(test)]
mod tests;
