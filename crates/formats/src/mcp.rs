//! Model Context Protocol: the `Tool`, the `params` of `tools/call` and the `CallToolResult`.
//!
//! What came from an MCP server goes on as it came, with fields this program does not know; only
//! what Toolkeep itself decides (name, description, input schema) stands in its place.

use serde_json::{Map, Value, json};
use tool::{Body, Json, Outcome, Tool, Traits};

use crate::calls::{self, CallsError, RequestedCall, text};
use crate::results::value_text;

/// The `Tool`, under `name`. To be computed once per catalog and name.
pub fn tool(tool: &Tool, name: &str) -> Json {
    let name = Json::of(name);
    if tool.received.get("inputSchema").is_some() {
        return received(tool, &name);
    }
    let title = tool.title.as_ref().map(Json::of);
    let description = Json::of(&tool.description);
    let output = tool.output.as_ref().filter(|output| is_object_schema(output));
    let annotations = annotations(&tool.traits);
    let fields = [
        Some(("name", &name)),
        title.as_ref().map(|title| ("title", title)),
        Some(("description", &description)),
        Some(("inputSchema", &tool.input)),
        output.map(|output| ("outputSchema", output)),
        annotations.as_ref().map(|annotations| ("annotations", annotations)),
    ];
    Json::fields(fields.into_iter().flatten())
}

/// The definition as received, except where the catalog's own word differs: a source other than an
/// MCP server may write any `inputSchema`, and what is shown must be what calls are checked against.
fn received(tool: &Tool, name: &Json) -> Json {
    let mut json = tool.received.clone();
    if json.get("name").as_ref() != Some(name) {
        json = json.with("name", name);
    }
    let described = json.get("description").map(|text| value_text(&text)).unwrap_or_default();
    if described != tool.description {
        json = json.with("description", &Json::of(&tool.description));
    }
    if json.get("inputSchema").as_ref() != Some(&tool.input) {
        json = json.with("inputSchema", &tool.input);
    }
    apply_hints(json, &tool.traits)
}

/// The definition with the hints that hold here: a client takes them for Toolkeep's own word. What else
/// its annotations say stays.
pub fn apply_hints(json: Json, traits: &Traits) -> Json {
    let said = json.get("annotations").and_then(|it| it.value().as_object().cloned());
    let before = said.unwrap_or_default();
    let (mut after, hints) = (before.clone(), hints(traits));
    if !traits.trusted_annotations {
        let holds = |hint: &str, said: &Value| {
            hints.iter().any(|(known, holds)| *known == hint && said.as_bool() == Some(*holds))
        };
        after.retain(|hint, said| is_strict(hint, said) || holds(hint, said));
    }
    // What makes a client careful stays, whatever is known here.
    for (hint, holds) in hints.into_iter().filter(|hint| *hint != ("destructiveHint", false)) {
        if hint_meaning(&after, hint) != holds {
            after.insert(hint.to_owned(), Value::Bool(holds));
        }
    }
    match after {
        same if same == before => json,
        none if none.is_empty() => json.without("annotations"),
        after => json.with("annotations", &Json::of(&after)),
    }
}

/// Whether a member of annotations can only make a client more careful.
fn is_strict(hint: &str, said: &Value) -> bool {
    match hint {
        "readOnlyHint" | "idempotentHint" => said.as_bool() == Some(false),
        "destructiveHint" | "openWorldHint" => said.as_bool() == Some(true),
        _ => true,
    }
}

/// What annotations say of a hint, by MCP's defaults where it is absent.
fn hint_meaning(annotations: &Map<String, Value>, hint: &str) -> bool {
    let said = |hint: &str| annotations.get(hint).and_then(Value::as_bool);
    match hint {
        "destructiveHint" => said("readOnlyHint") != Some(true) && said(hint) != Some(false),
        _ => said(hint) == Some(true),
    }
}

/// Clients refuse an output schema whose root is no object.
fn is_object_schema(schema: &Json) -> bool {
    schema.get("type").is_some_and(|kind| kind.as_str() == "\"object\"")
}

/// Only what is known: MCP reads an absent hint as the worse case, which is what unknown means here.
fn annotations(traits: &Traits) -> Option<Json> {
    let hints =
        hints(traits).into_iter().map(|(hint, holds)| (hint.to_owned(), Value::Bool(holds)));
    let hints: Map<_, _> = hints.collect();
    (!hints.is_empty()).then(|| Json::of(&hints))
}

/// The hints that are known to hold.
fn hints(traits: &Traits) -> Vec<(&'static str, bool)> {
    let mut hints = Vec::new();
    if !traits.effects.is_unknown() {
        hints.push(("readOnlyHint", !traits.effects.any()));
        hints.push(("destructiveHint", traits.destructive));
    } else if traits.destructive {
        hints.push(("destructiveHint", true));
    }
    if traits.idempotent {
        hints.push(("idempotentHint", true));
    }
    hints
}

/// Of the `params` of a `tools/call`, or of an array of such.
pub(crate) fn calls(message: &Json) -> Result<Vec<RequestedCall>, CallsError> {
    match message.kind() {
        "array" => calls::each(&message.elements(), "params", |params, path| {
            call(params, path.trim_end_matches('.')).map(Some)
        }),
        _ => call(message, "params").map(|call| vec![call]),
    }
}

fn call(params: &Json, path: &str) -> Result<RequestedCall, CallsError> {
    if params.kind() != "object" {
        return Err(CallsError::shape(path, Some(params), "an object"));
    }
    let name = text(params, "name", &format!("{path}."))?;
    let given = params.get("arguments").unwrap_or_else(Json::empty);
    Ok(RequestedCall { id: None, name, text: given.bytes().clone() })
}

/// An array of `params`.
pub(crate) fn message(calls: &[RequestedCall]) -> Json {
    let params = |call: &RequestedCall| {
        Json::fields([("name", &Json::of(&call.name)), ("arguments", &calls::as_object(call))])
    };
    Json::array(&calls.iter().map(params).collect::<Vec<_>>())
}

/// What came of a call, as a `CallToolResult`.
pub fn outcome(outcome: &Outcome) -> Json {
    let value = match &outcome.body {
        Body::Mcp(result) => return result.clone(),
        Body::Value(value) => value,
    };
    let content = Json::of(&json!([{ "type": "text", "text": value_text(value) }]));
    let is_error = Json::of(&outcome.is_error);
    let structured = (value.kind() == "object").then_some(("structuredContent", value));
    let fields = [Some(("content", &content)), structured, Some(("isError", &is_error))];
    Json::fields(fields.into_iter().flatten())
}

/// A `CallToolResult` for a format that takes text only: its texts, a line for each part that is
/// none, or its structured content where there are no parts.
pub(crate) fn result_text(result: &Json) -> String {
    let parts = result.get("content").map(|content| content.elements()).unwrap_or_default();
    if parts.is_empty() {
        return result.get("structuredContent").map_or_else(String::new, |s| s.as_str().to_owned());
    }
    parts.iter().map(part_text).collect::<Vec<_>>().join("\n")
}

pub(crate) fn part_text(part: &Json) -> String {
    let field = |key: &str| part.get(key).map(|json| value_text(&json));
    let resource = part.get("resource");
    let of_resource = |key: &str| resource.as_ref()?.get(key).map(|json| value_text(&json));
    let kind = field("type").unwrap_or_else(|| "untyped".into());
    match kind.as_str() {
        "text" => field("text").unwrap_or_default(),
        "resource_link" => format!("[resource {}]", field("uri").unwrap_or_default()),
        "resource" => of_resource("text").unwrap_or_else(|| {
            format!("[resource {}, not text]", of_resource("uri").unwrap_or_default())
        }),
        _ => {
            let mime = field("mimeType").map(|mime| format!(" {mime}")).unwrap_or_default();
            format!("[{kind}{mime}, not text]")
        }
    }
}
