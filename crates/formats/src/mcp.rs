//! Format of the Model Context Protocol: the `Tool`, the `params` of `tools/call` and the
//! `CallToolResult`.
//!
//! Content from an MCP server passes unchanged, including unknown fields. Only name, description
//! and input schema, which Toolkeep decides, are replaced.

use serde_json::{Map, Value};
use tool::{Json, Outcome, OutcomeBody, Tool, ToolTraits};

use crate::result_text::json_text;
use crate::tool_calls::{self, ParseCallsError, ToolCallRequest, required_string};

/// Share of a JSON text that its escapes add in a string, as one to this number: a guess.
const ESCAPED_SHARE: usize = 8;

/// Renders the MCP `Tool` under `name`. To be computed once per catalog and name.
pub fn render_tool(tool: &Tool, name: &str) -> Json {
    let name = Json::encode(name);
    if tool.raw_definition.get("inputSchema").is_some() {
        return from_received(tool, &name);
    }
    let title = tool.title.as_ref().map(Json::encode);
    let description = Json::encode(&tool.description);
    let output = tool.output_schema.as_ref().filter(|output| is_object_schema(output));
    let annotations = render_annotations(&tool.traits);
    let fields = [
        Some(("name", &name)),
        title.as_ref().map(|title| ("title", title)),
        Some(("description", &description)),
        Some(("inputSchema", &tool.input_schema)),
        output.map(|output| ("outputSchema", output)),
        annotations.as_ref().map(|annotations| ("annotations", annotations)),
    ];
    Json::object_from(fields.into_iter().flatten())
}

/// Renders the received definition with Toolkeep's own name, description and input schema. They may
/// differ from the received ones, because a source other than an MCP server may write any
/// `inputSchema`, and the rendered schema must be the one that calls are validated against.
fn from_received(tool: &Tool, name: &Json) -> Json {
    let mut json = tool.raw_definition.clone();
    if json.get("name").as_ref() != Some(name) {
        json = json.with_member("name", name);
    }
    let described = json.get("description").map(|text| json_text(&text)).unwrap_or_default();
    if described != tool.description {
        json = json.with_member("description", &Json::encode(&tool.description));
    }
    if json.get("inputSchema").as_ref() != Some(&tool.input_schema) {
        json = json.with_member("inputSchema", &tool.input_schema);
    }
    apply_hints(json, &tool.traits)
}

/// Replaces the hints of a definition by Toolkeep's own, because clients trust them as Toolkeep's.
/// Other annotations remain.
pub fn apply_hints(json: Json, traits: &ToolTraits) -> Json {
    let stated = json.get("annotations").and_then(|it| it.to_value().as_object().cloned());
    let before = stated.unwrap_or_default();
    let (mut after, hints) = (before.clone(), trait_hints(traits));
    if !traits.trusted_annotations {
        let is_known_hint = |hint: &str, said: &Value| {
            hints.iter().any(|(known, holds)| *known == hint && said.as_bool() == Some(*holds))
        };
        after.retain(|hint, said| is_stricter(hint, said) || is_known_hint(hint, said));
    }
    // Hints that make a client careful remain in any case.
    for (hint, holds) in hints.into_iter().filter(|hint| *hint != ("destructiveHint", false)) {
        if hint_value(&after, hint) != holds {
            after.insert(hint.to_owned(), Value::Bool(holds));
        }
    }
    match after {
        same if same == before => json,
        none if none.is_empty() => json.without_member("annotations"),
        after => json.with_member("annotations", &Json::encode(&after)),
    }
}

/// Returns whether an annotation can only make a client more careful.
fn is_stricter(hint: &str, stated: &Value) -> bool {
    match hint {
        "readOnlyHint" | "idempotentHint" => stated.as_bool() == Some(false),
        "destructiveHint" | "openWorldHint" => stated.as_bool() == Some(true),
        _ => true,
    }
}

/// Returns the value of a hint, with MCP's default if it is absent.
fn hint_value(annotations: &Map<String, Value>, hint: &str) -> bool {
    let stated = |hint: &str| annotations.get(hint).and_then(Value::as_bool);
    match hint {
        "destructiveHint" => stated("readOnlyHint") != Some(true) && stated(hint) != Some(false),
        _ => stated(hint) == Some(true),
    }
}

/// Clients refuse an output schema whose root is no object.
fn is_object_schema(schema: &Json) -> bool {
    schema.get("type").is_some_and(|kind| kind.as_str() == "\"object\"")
}

/// Only what is known: MCP reads an absent hint as the worse case, which is what unknown means here.
fn render_annotations(traits: &ToolTraits) -> Option<Json> {
    let hints =
        trait_hints(traits).into_iter().map(|(hint, holds)| (hint.to_owned(), Value::Bool(holds)));
    let hints: Map<_, _> = hints.collect();
    (!hints.is_empty()).then(|| Json::encode(&hints))
}

/// The hints that are known to hold.
fn trait_hints(traits: &ToolTraits) -> Vec<(&'static str, bool)> {
    let mut hints = Vec::new();
    if !traits.effects.is_unknown() {
        hints.push(("readOnlyHint", !traits.effects.may_change_state()));
        hints.push(("destructiveHint", traits.is_destructive));
    } else if traits.is_destructive {
        hints.push(("destructiveHint", true));
    }
    if traits.is_idempotent {
        hints.push(("idempotentHint", true));
    }
    hints
}

/// Parses the `params` of one `tools/call`, or an array of them.
pub(crate) fn parse_calls(message: &Json) -> Result<Vec<ToolCallRequest>, ParseCallsError> {
    match message.kind() {
        "array" => tool_calls::parse_each(&message.elements(), "params", |params, path| {
            parse_call(params, path.trim_end_matches('.')).map(Some)
        }),
        _ => parse_call(message, "params").map(|call| vec![call]),
    }
}

fn parse_call(params: &Json, path: &str) -> Result<ToolCallRequest, ParseCallsError> {
    if params.kind() != "object" {
        return Err(ParseCallsError::unexpected_type(path, Some(params), "an object"));
    }
    let name = required_string(params, "name", &format!("{path}."))?;
    let given = params.get("arguments").unwrap_or_else(Json::empty_object);
    let arguments_text = given.bytes().clone();
    Ok(ToolCallRequest { id: None, name, namespace: None, arguments_text })
}

/// Renders the calls as an array of `tools/call` params.
pub(crate) fn render_calls(calls: &[ToolCallRequest]) -> Json {
    let params = |call: &ToolCallRequest| {
        Json::object_from([
            ("name", &Json::encode(&call.name)),
            ("arguments", &tool_calls::arguments_object(call)),
        ])
    };
    Json::array_of(&calls.iter().map(params).collect::<Vec<_>>())
}

/// Renders the outcome of a call as a `CallToolResult`.
pub fn render_call_result(outcome: &Outcome) -> Json {
    let value = match &outcome.body {
        OutcomeBody::Mcp(result) => return result.clone(),
        OutcomeBody::Value(value) => value,
    };
    // Written at once: a value may have megabytes, and each part of its own would copy it.
    let is_object = value.kind() == "object";
    let (size, copies) = (value.as_str().len(), if is_object { 2 } else { 1 });
    let mut text = String::with_capacity(size * copies + size / ESCAPED_SHARE + 96);
    text.push_str(r#"{"content":[{"type":"text","text":"#);
    value.write_as_text(&mut text);
    text.push_str("}]");
    if is_object {
        text.push_str(r#","structuredContent":"#);
        text.push_str(value.as_str());
    }
    text.push_str(if outcome.is_error { r#","isError":true}"# } else { r#","isError":false}"# });
    Json::from_trusted(text)
}

/// Renders a `CallToolResult` for a format of text only: its texts, one line for each other part,
/// or its structured content if there are no parts.
pub(crate) fn call_result_text(result: &Json) -> String {
    let parts = result.get("content").map(|content| content.elements()).unwrap_or_default();
    if parts.is_empty() {
        return result.get("structuredContent").map_or_else(String::new, |s| s.as_str().to_owned());
    }
    parts.iter().map(content_block_text).collect::<Vec<_>>().join("\n")
}

pub(crate) fn content_block_text(part: &Json) -> String {
    let field = |key: &str| part.get(key).map(|json| json_text(&json));
    let resource = part.get("resource");
    let of_resource = |key: &str| resource.as_ref()?.get(key).map(|json| json_text(&json));
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
