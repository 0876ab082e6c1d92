//! OpenAI Chat Completions: `tools`, `tool_calls` and `role: "tool"` messages.
//!
//! Arguments are a JSON string that may be invalid JSON. Some compatible servers send an object
//! instead, or omit empty arguments. All three forms are accepted.

use serde_json::json;
use tool::{Json, Tool};

use crate::schema_lowering::{LoweredSchema, SchemaLoss, provider_rules};
use crate::tool_calls::{self, ParseCallsError, ToolCallRequest, ToolCallResult};
use crate::{RenderedTool, result_text};

pub(crate) fn render_tool(tool: &Tool, name: &str) -> Result<RenderedTool, SchemaLoss> {
    render_with_strict(tool, name, false)
}

pub(crate) fn render_strict_tool(tool: &Tool, name: &str) -> Result<RenderedTool, SchemaLoss> {
    crate::strict_or_fallback(render_with_strict(tool, name, true), || {
        render_with_strict(tool, name, false)
    })
}

fn render_with_strict(tool: &Tool, name: &str, strict: bool) -> Result<RenderedTool, SchemaLoss> {
    let rules = if strict { &provider_rules::OPENAI_STRICT } else { &provider_rules::OPENAI };
    RenderedTool::from_lowered(tool, rules, |description, schema| {
        function_tool(name, description, schema, strict)
    })
}

/// Renders a function tool, as Chat Completions and compatible servers have it. Only a strict one
/// has the member `strict`.
pub(crate) fn function_tool(
    name: &str,
    description: &str,
    schema: &LoweredSchema,
    strict: bool,
) -> Json {
    let (name, description) = (Json::encode(name), Json::encode(description));
    let strict = strict.then(|| Json::encode(&true));
    let fields = [
        Some(("name", &name)),
        Some(("description", &description)),
        Some(("parameters", &schema.schema)),
        strict.as_ref().map(|strict| ("strict", strict)),
    ];
    let function = Json::object_from(fields.into_iter().flatten());
    Json::object_from([("type", &Json::encode("function")), ("function", &function)])
}

/// Renders a result. The format has no error flag, so the text states a failure.
pub(crate) fn render_result(tool_result: &ToolCallResult) -> Json {
    let (id, text) = (
        tool_result.id.as_deref().unwrap_or_default(),
        result_text::outcome_text_with_error_prefix(&tool_result.outcome),
    );
    Json::encode(&json!({ "role": "tool", "tool_call_id": id, "content": text }))
}

/// Renders calls as the `tool_calls` of an assistant message.
pub(crate) fn render_calls(calls: &[ToolCallRequest]) -> Json {
    let calls: Vec<_> = calls.iter().map(render_call).collect();
    let (role, content) = (Json::encode("assistant"), Json::encode(&()));
    Json::object_from([
        ("role", &role),
        ("content", &content),
        ("tool_calls", &Json::array_of(&calls)),
    ])
}

fn render_call(call: &ToolCallRequest) -> Json {
    let (name, arguments) = (Json::encode(&call.name), tool_calls::arguments_string(call));
    let function = Json::object_from([("name", &name), ("arguments", &arguments)]);
    let id = Json::encode(call.id.as_deref().unwrap_or_default());
    Json::object_from([("id", &id), ("type", &Json::encode("function")), ("function", &function)])
}

pub(crate) fn parse_calls(message: &Json) -> Result<Vec<ToolCallRequest>, ParseCallsError> {
    let (found, path) = locate_calls(message)?;
    let Some(found) = found else { return Ok(Vec::new()) };
    tool_calls::parse_each(&tool_calls::require_array(&found, &path)?, &path, parse_call)
}

/// The array of calls in a completion, a message, or the array itself. A message without one asks
/// for none.
fn locate_calls(message: &Json) -> Result<(Option<Json>, String), ParseCallsError> {
    if message.kind() == "array" {
        return Ok((Some(message.clone()), "tool_calls".into()));
    }
    let (message, path) = match message.get("choices") {
        None => (message.clone(), ""),
        Some(choices) => {
            let first = choices.elements().into_iter().next().and_then(|c| c.get("message"));
            let missing =
                || ParseCallsError::unexpected_type("choices[0].message", None, "an object");
            (first.ok_or_else(missing)?, "choices[0].message.")
        }
    };
    if message.kind() != "object" {
        let object_path = if path.is_empty() { "message" } else { "choices[0].message" };
        return Err(ParseCallsError::unexpected_type(object_path, Some(&message), "an object"));
    }
    let calls = message.get("tool_calls").filter(|calls| calls.kind() != "null");
    Ok((calls, format!("{path}tool_calls")))
}

fn parse_call(call: &Json, path: &str) -> Result<Option<ToolCallRequest>, ParseCallsError> {
    let id = tool_calls::required_string(call, "id", path)?;
    // Compatible servers may omit it; `custom` tools take free text and are not ours.
    if let Some(found) = call.get("type").and_then(|kind| kind.decode::<String>().ok())
        && found != "function"
    {
        let (path, found) = (format!("{path}type"), format!("`{found}`"));
        return Err(ParseCallsError::UnexpectedType { path, found, expected: "`function`" });
    }
    let function = tool_calls::required_object(call, "function", path)?;
    let name = tool_calls::required_string(&function, "name", &format!("{path}function."))?;
    let text = tool_calls::arguments_text(function.get("arguments"));
    Ok(Some(ToolCallRequest { id: Some(id), name, namespace: None, arguments_text: text }))
}
