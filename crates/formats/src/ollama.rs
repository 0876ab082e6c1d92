//! Ollama: tools as OpenAI writes them, `tool_calls` with objects and `role: "tool"` messages.

use tool::{Json, Tool};

use crate::schema_lowering::{SchemaLoss, provider_rules};
use crate::tool_calls::{self, ParseCallsError, ToolCallRequest, ToolCallResult};
use crate::{RenderedTool, openai_chat, result_text};

pub(crate) fn render_tool(tool: &Tool, name: &str) -> Result<RenderedTool, SchemaLoss> {
    RenderedTool::from_lowered(tool, &provider_rules::OLLAMA, |description, schema| {
        openai_chat::function_tool(name, description, schema, false)
    })
}

/// Renders a result. The format has no error flag, so the text states a failure.
pub(crate) fn render_result(tool_result: &ToolCallResult) -> Json {
    let text = Json::encode(&result_text::outcome_text_with_error_prefix(&tool_result.outcome));
    let (id, name) = (tool_result.id.as_ref().map(Json::encode), Json::encode(&tool_result.name));
    let fields = [
        Some(("role", &Json::encode("tool"))),
        Some(("content", &text)),
        Some(("tool_name", &name)),
        id.as_ref().map(|id| ("tool_call_id", id)),
    ];
    Json::object_from(fields.into_iter().flatten())
}

/// Renders calls as the `tool_calls` of an assistant message.
pub(crate) fn render_calls(calls: &[ToolCallRequest]) -> Json {
    let call = |call: &ToolCallRequest| {
        let (name, arguments) = (Json::encode(&call.name), tool_calls::arguments_object(call));
        let function = Json::object_from([("name", &name), ("arguments", &arguments)]);
        let id = call.id.as_ref().map(Json::encode);
        let fields = [id.as_ref().map(|id| ("id", id)), Some(("function", &function))];
        Json::object_from(fields.into_iter().flatten())
    };
    let calls: Vec<_> = calls.iter().map(call).collect();
    let (role, content) = (Json::encode("assistant"), Json::encode(""));
    Json::object_from([
        ("role", &role),
        ("content", &content),
        ("tool_calls", &Json::array_of(&calls)),
    ])
}

/// Parses the calls of a whole response, of its `message`, or of its `tool_calls`.
pub(crate) fn parse_calls(message: &Json) -> Result<Vec<ToolCallRequest>, ParseCallsError> {
    let (found, path) = match message.kind() {
        "array" => (Some(message.clone()), "tool_calls"),
        "object" => match message.get("message") {
            Some(inner) if inner.kind() == "object" => {
                (inner.get("tool_calls"), "message.tool_calls")
            }
            Some(other) => {
                return Err(ParseCallsError::unexpected_type("message", Some(&other), "an object"));
            }
            None => (message.get("tool_calls"), "tool_calls"),
        },
        _ => {
            return Err(ParseCallsError::unexpected_type(
                "message",
                Some(message),
                "an object or an array",
            ));
        }
    };
    let Some(found) = found.filter(|found| found.kind() != "null") else { return Ok(Vec::new()) };
    tool_calls::parse_each(&tool_calls::require_array(&found, path)?, path, parse_call)
}

/// Older servers give no id.
fn parse_call(call: &Json, path: &str) -> Result<Option<ToolCallRequest>, ParseCallsError> {
    let id = tool_calls::optional_string(call, "id", path)?;
    let function = tool_calls::required_object(call, "function", path)?;
    let name = tool_calls::required_string(&function, "name", &format!("{path}function."))?;
    let text = tool_calls::arguments_text(function.get("arguments"));
    Ok(Some(ToolCallRequest { id, name, namespace: None, arguments_text: text }))
}
