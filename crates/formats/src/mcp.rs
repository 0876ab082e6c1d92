//! Model Context Protocol: the `Tool`, the `params` of `tools/call` and the `CallToolResult`.
//!
//! What came from an MCP server goes on as it came, with fields this program does not know; only
//! what Toolkeep itself decides (name, description, input schema) stands in its place.

use serde_json::{Map, Value, json};
use tool::{Body, Effects, Json, Outcome, Tool, Traits};

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
    json
}

/// Clients refuse an output schema whose root is no object.
fn is_object_schema(schema: &Json) -> bool {
    schema.get("type").is_some_and(|kind| kind.as_str() == "\"object\"")
}

/// Only what is known: MCP reads an absent hint as the worse case, which is what unknown means here.
fn annotations(traits: &Traits) -> Option<Json> {
    let mut hints = Map::new();
    if traits.effects != Effects::Unknown {
        hints.insert("readOnlyHint".into(), Value::Bool(!traits.effects.any()));
        hints.insert("destructiveHint".into(), Value::Bool(traits.destructive));
    } else if traits.destructive {
        hints.insert("destructiveHint".into(), Value::Bool(true));
    }
    if traits.idempotent {
        hints.insert("idempotentHint".into(), Value::Bool(true));
    }
    (!hints.is_empty()).then(|| Json::of(&hints))
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
