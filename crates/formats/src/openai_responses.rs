//! OpenAI Responses: flat `tools`, `function_call` items and `function_call_output` items.

use serde_json::json;
use tool::{Json, Tool};

use crate::schema_lowering::{SchemaLoss, provider_rules};
use crate::tool_calls::{self, ParseCallsError, ToolCallRequest, ToolCallResult};
use crate::{RenderedTool, result_text};

/// Renders a tool with an explicit `strict`, because the API defaults it to true.
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
        Json::object_from([
            ("type", &Json::encode("function")),
            ("name", &Json::encode(name)),
            ("description", &Json::encode(description)),
            ("parameters", &schema.schema),
            ("strict", &Json::encode(&strict)),
        ])
    })
}

/// Renders a result, which refers to the `call_id` of its call, not to the call's `id`.
pub(crate) fn render_result(tool_result: &ToolCallResult) -> Json {
    let (id, text) = (
        tool_result.id.as_deref().unwrap_or_default(),
        result_text::outcome_text_with_error_prefix(&tool_result.outcome),
    );
    Json::encode(&json!({ "type": "function_call_output", "call_id": id, "output": text }))
}

/// Renders calls as `function_call` items.
pub(crate) fn render_calls(calls: &[ToolCallRequest]) -> Json {
    let item = |call: &ToolCallRequest| {
        Json::object_from([
            ("type", &Json::encode("function_call")),
            ("call_id", &Json::encode(call.id.as_deref().unwrap_or_default())),
            ("name", &Json::encode(&call.name)),
            ("arguments", &tool_calls::arguments_string(call)),
        ])
    };
    Json::array_of(&calls.iter().map(item).collect::<Vec<_>>())
}

/// Parses the calls of a whole response, of its `output`, or of one item.
pub(crate) fn parse_calls(message: &Json) -> Result<Vec<ToolCallRequest>, ParseCallsError> {
    let output = match message.kind() {
        "array" => message.clone(),
        "object" => match message.get("output") {
            Some(output) => output,
            None => Json::array_of([message]),
        },
        _ => {
            return Err(ParseCallsError::unexpected_type(
                "message",
                Some(message),
                "an object or an array",
            ));
        }
    };
    tool_calls::parse_each(&tool_calls::require_array(&output, "output")?, "output", parse_call)
}

/// Parses a function call item; `None` for other items such as reasoning, messages and server
/// tools.
fn parse_call(item: &Json, path: &str) -> Result<Option<ToolCallRequest>, ParseCallsError> {
    let kind = tool_calls::required_string(item, "type", path)?;
    match kind.as_str() {
        "function_call" => {}
        "custom_tool_call" => {
            let (path, found) = (format!("{path}type"), format!("`{kind}`"));
            return Err(ParseCallsError::UnexpectedType {
                path,
                found,
                expected: "`function_call`",
            });
        }
        _ => return Ok(None),
    }
    let id = tool_calls::required_string(item, "call_id", path)?;
    let name = tool_calls::required_string(item, "name", path)?;
    Ok(Some(ToolCallRequest {
        id: Some(id),
        name,
        arguments_text: tool_calls::arguments_text(item.get("arguments")),
    }))
}
