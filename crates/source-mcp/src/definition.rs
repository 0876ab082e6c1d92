//! One definition of a server, as received, to one item of the catalog.
//!
//! Nothing a server says of its own harmlessness counts unless the operator trusts it; what it says of the harm
//! it does counts always. The definition itself stays as it was received.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tool::{
    CallerType, Effect, Effects, Json, Limits, NameError, Problem, Prompt, Resource, Safety, Scope,
    SourceName, Tool, ToolName, Traits,
};

use super::options::Marks;
use tool::display_text::shown;

/// Characters of a name or a URI in a problem's place.
const PLACE: usize = 80;

/// The name under which `own` of `source` is offered: `source.own`.
///
/// MCP servers choose names as if they were alone: `search` and `read_file` are everywhere. With the
/// operator's name before it, no server can take another's place. A dot inside `own` stays; the
/// executor keeps `own` itself, so nothing ever splits the offered name again.
///
/// # Errors
/// Where the two together are no name of the catalog.
pub fn offered_name(source: &SourceName, own: &str) -> Result<ToolName, NameError> {
    if own.is_empty() {
        return Err(NameError::Empty);
    }
    ToolName::new(format!("{source}.{own}"))
}

/// A tool, and the name its own server knows it by.
#[derive(Debug)]
pub(super) struct Read<T> {
    pub(super) own: String,
    pub(super) item: T,
    /// What was left out of it.
    pub(super) problem: Option<Problem>,
}

#[derive(Deserialize)]
struct ToolText<'a> {
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

/// A tool's annotations. A hint that is no truth value is none, and takes no other with it.
#[derive(Debug, Default)]
struct Annotations {
    title: Option<String>,
    read_only: Option<bool>,
    destructive: Option<bool>,
    idempotent: Option<bool>,
    open_world: Option<bool>,
}

impl Annotations {
    fn read(raw: &RawValue) -> Option<Self> {
        let said: serde_json::Map<String, Value> = serde_json::from_str(raw.get()).ok()?;
        let hint = |key: &str| said.get(key).and_then(Value::as_bool);
        Some(Self {
            title: said.get("title").and_then(Value::as_str).map(str::to_owned),
            read_only: hint("readOnlyHint"),
            destructive: hint("destructiveHint"),
            idempotent: hint("idempotentHint"),
            open_world: hint("openWorldHint"),
        })
    }
}

/// Reads one tool. `index` names it where it has no name.
pub(super) fn tool(
    source: &SourceName,
    marks: &Marks,
    (index, raw): (usize, &RawValue),
) -> Result<Read<Tool>, Problem> {
    let received = checked(raw).map_err(|why| Problem::new(nameless("tool", index, raw), why))?;
    let text: ToolText<'_> = serde_json::from_str(received.as_str())
        .map_err(|error| Problem::new(nameless("tool", index, raw), error.to_string()))?;
    let at = |why: String| Problem::new(named("tool", &text.name), why);
    let name = offered_name(source, &text.name).map_err(|why| {
        at(format!("is not offered: {why}")).fix("ask the server's author for a name of MCP's form")
    })?;
    let input =
        text.input.ok_or_else(|| at("is not offered: it has no `inputSchema`".to_owned()))?;
    let input =
        schema(input).map_err(|why| at(format!("is not offered: its `inputSchema` {why}")))?;
    let (output, problem) = match text.output.map(schema).transpose() {
        Ok(output) => (output, None),
        Err(why) => (None, Some(at(format!("is offered without its `outputSchema`, which {why}")))),
    };
    let annotations = text.annotations.and_then(Annotations::read).unwrap_or_default();
    let traits = traits(marks, &text.name, &annotations);
    let title = text.title.or(annotations.title);
    let description = text.description.unwrap_or_default();
    Ok(Read {
        own: text.name,
        item: Tool { name, title, description, input, output, traits, received },
        problem,
    })
}

/// Reads one prompt.
pub(super) fn prompt(
    source: &SourceName,
    (index, raw): (usize, &RawValue),
) -> Result<Read<Prompt>, Problem> {
    #[derive(Deserialize)]
    struct Text {
        name: String,
    }
    let received = checked(raw).map_err(|why| Problem::new(nameless("prompt", index, raw), why))?;
    let Text { name: own } = serde_json::from_str(received.as_str())
        .map_err(|error| Problem::new(nameless("prompt", index, raw), error.to_string()))?;
    let name = offered_name(source, &own)
        .map_err(|why| Problem::new(named("prompt", &own), format!("is not offered: {why}")))?;
    Ok(Read { own, item: Prompt { name, received }, problem: None })
}

/// Reads one resource, or one template of resources.
pub(super) fn resource(
    template: bool,
    (index, raw): (usize, &RawValue),
) -> Result<Read<Resource>, Problem> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Text {
        uri: Option<String>,
        uri_template: Option<String>,
    }
    let kind = if template { "resource template" } else { "resource" };
    let at = |why: String| Problem::new(nameless(kind, index, raw), why);
    let received = checked(raw).map_err(at)?;
    let text: Text =
        serde_json::from_str(received.as_str()).map_err(|error| at(error.to_string()))?;
    let uri = if template { text.uri_template } else { text.uri };
    let field = if template { "uriTemplate" } else { "uri" };
    let uri = uri
        .filter(|uri| !uri.is_empty())
        .ok_or_else(|| at(format!("is not offered: it has no `{field}`")))?;
    Ok(Read { own: uri.clone(), item: Resource { uri, template, received }, problem: None })
}

fn named(kind: &str, name: &str) -> String {
    format!("{kind} `{}`", shown(name, PLACE))
}

/// The place of a definition that could not be read: its name where one can be seen, or its number.
fn nameless(kind: &str, index: usize, raw: &RawValue) -> String {
    #[derive(Deserialize)]
    struct Name {
        name: String,
    }
    serde_json::from_str::<Name>(raw.get())
        .map_or_else(|_| format!("{kind} {}", index + 1), |Name { name }| named(kind, &name))
}

fn checked(raw: &RawValue) -> Result<Json, String> {
    let text = Bytes::copy_from_slice(raw.get().as_bytes());
    let json = Json::check(text, Limits::DEFINITION).and_then(Json::object);
    json.map_err(|why| format!("is not offered: {why}"))
}

/// A schema is an object, and what it describes is one too: arguments have names.
fn schema(raw: &RawValue) -> Result<Json, String> {
    #[derive(Deserialize)]
    struct Kind {
        #[serde(rename = "type")]
        kind: Option<serde_json::Value>,
    }
    let json = Json::check(Bytes::copy_from_slice(raw.get().as_bytes()), Limits::DEFINITION)
        .and_then(Json::object)
        .map_err(|why| format!("cannot be used: {why}"))?;
    let Kind { kind } = json.read().map_err(|why| format!("cannot be used: {why}"))?;
    match kind {
        Some(kind) if kind != "object" => {
            Err(format!("is of type `{}`, not `object`", shown(&kind.to_string(), PLACE)))
        }
        _ => Ok(json),
    }
}

/// What a tool's annotations count for: nowhere else is it decided. The operator's marks go before them.
///
/// MCP leaves it to the client whom it trusts. Of a server that the operator does not trust, a hint counts
/// that makes the tool stricter, which is `destructiveHint` alone: `openWorldHint` would let the tool into
/// what a policy allows to tools of the network.
fn traits(marks: &Marks, own: &str, said: &Annotations) -> Traits {
    let trusted = marks.trust_annotations;
    let read_only = marks.read_only.holds(own) || (trusted && said.read_only == Some(true));
    let effects = match said.read_only {
        _ if read_only => Effects::read_only(),
        // MCP: it modifies its environment.
        Some(false) if trusted => Effects::Declared(vec![Effect::SystemState]),
        _ => Effects::Unknown,
    };
    // MCP: a tool that is said to change things and not said to spare them destroys.
    let destroys = said.destructive.unwrap_or(said.read_only == Some(false));
    let mut scopes = marks.scopes.clone();
    if trusted && said.open_world == Some(true) && !scopes.contains(&Scope::Network) {
        scopes.push(Scope::Network);
    }
    let mut callers = vec![CallerType::Direct];
    callers.extend(marks.chain.holds(own).then_some(CallerType::Chain));
    Traits {
        level: marks.level.unwrap_or(tool::Level::Guest),
        scopes,
        safety: marks.safety.unwrap_or(Safety::Safe),
        categories: marks.categories.clone(),
        effects,
        idempotent: marks.idempotent.holds(own) || (trusted && said.idempotent == Some(true)),
        destructive: marks.destructive.as_ref().map_or(destroys && !read_only, |it| it.holds(own)),
        callers,
        timeout: marks.timeout,
        trusted_annotations: trusted,
        ..Traits::default()
    }
}

#[cfg(test)]
mod tests;
