//! Gemini: `functionDeclarations`, `functionCall` parts and one content of `functionResponse` parts.
//!
//! A declaration has either `parameters`, Gemini's own Schema, or `parametersJsonSchema`. Every
//! version of the service supports the first, so it is used if it can express the schema.

use tool::{Json, Tool};

use crate::schema_lowering::{LossKind, LoweredSchema, SchemaLoss, provider_rules};
use crate::tool_calls::{self, ParseCallsError, ToolCallRequest, ToolCallResult};
use crate::{RenderedTool, result_text};

pub(crate) fn render_tool(tool: &Tool, name: &str) -> Result<RenderedTool, SchemaLoss> {
    let native_schema =
        RenderedTool::from_lowered(tool, &provider_rules::GEMINI, |description, schema| {
            function_declaration(name, description, "parameters", schema)
        });
    let strict_loss = match native_schema {
        Ok(mut rendered) => {
            let shown = rendered.json.as_ref().is_some_and(|json| json.get("parameters").is_some());
            if !shown {
                let why = "Gemini requires a function without arguments to have no schema";
                rendered.losses.push(SchemaLoss::new("properties", LossKind::Rewritten, why));
            }
            return Ok(rendered);
        }
        Err(refused) => refused,
    };
    let mut rendered =
        RenderedTool::from_lowered(tool, &provider_rules::GEMINI_JSON, |description, schema| {
            function_declaration(name, description, "parametersJsonSchema", schema)
        })?;
    let why = "Gemini's Schema cannot express it, so the whole schema is in `parametersJsonSchema`";
    rendered
        .losses
        .insert(0, SchemaLoss { change: LossKind::Rewritten, reason: why, ..strict_loss });
    Ok(rendered)
}

/// A function without arguments has no schema: an object without properties is refused.
fn function_declaration(
    name: &str,
    description: &str,
    member: &'static str,
    schema: &LoweredSchema,
) -> Json {
    let (name, description) = (Json::encode(name), Json::encode(description));
    let shown = schema.has_arguments || member != "parameters";
    let fields = [
        Some(("name", &name)),
        Some(("description", &description)),
        shown.then_some((member, &schema.schema)),
    ];
    Json::object_from(fields.into_iter().flatten())
}

/// Merges all declarations into one tool, as the `tools` list of a request.
pub(crate) fn merge_declarations<'a>(declarations: impl Iterator<Item = &'a Json>) -> Json {
    Json::wrapped_array("functionDeclarations", declarations)
}

/// Wraps one declaration as one tool.
pub(crate) fn single_declaration(declaration: &Json) -> Json {
    Json::object_from([("functionDeclarations", &Json::array_of([declaration]))])
}

/// Renders all responses in one content, in the order of the calls: without IDs the order
/// identifies them.
pub(crate) fn render_results(tool_results: &[ToolCallResult]) -> Json {
    let parts: Vec<_> = tool_results.iter().map(response_part).collect();
    Json::object_from([("role", &Json::encode("user")), ("parts", &Json::array_of(&parts))])
}

fn response_part(tool_result: &ToolCallResult) -> Json {
    let response = if tool_result.outcome.is_error {
        Json::object_from([(
            "error",
            &Json::encode(&result_text::outcome_text(&tool_result.outcome)),
        )])
    } else {
        Json::object_from([("output", &result_text::outcome_value(&tool_result.outcome))])
    };
    let (id, name) = (tool_result.id.as_ref().map(Json::encode), Json::encode(&tool_result.name));
    let fields =
        [id.as_ref().map(|id| ("id", id)), Some(("name", &name)), Some(("response", &response))];
    Json::object_from([("functionResponse", &Json::object_from(fields.into_iter().flatten()))])
}

/// Renders calls as the `functionCall` parts of a model's content.
pub(crate) fn render_calls(calls: &[ToolCallRequest]) -> Json {
    let part = |call: &ToolCallRequest| {
        let (id, name) = (call.id.as_ref().map(Json::encode), Json::encode(&call.name));
        let args = tool_calls::arguments_object(call);
        let fields =
            [id.as_ref().map(|id| ("id", id)), Some(("name", &name)), Some(("args", &args))];
        Json::object_from([("functionCall", &Json::object_from(fields.into_iter().flatten()))])
    };
    let parts: Vec<_> = calls.iter().map(part).collect();
    Json::object_from([("role", &Json::encode("model")), ("parts", &Json::array_of(&parts))])
}

/// Parses the calls of a whole response, of its first candidate's content, or of the content's
/// `parts`.
pub(crate) fn parse_calls(message: &Json) -> Result<Vec<ToolCallRequest>, ParseCallsError> {
    let (parts, path) = locate_calls(message)?;
    let Some(parts) = parts else { return Ok(Vec::new()) };
    tool_calls::parse_each(&tool_calls::require_array(&parts, &path)?, &path, parse_call)
}

fn locate_calls(message: &Json) -> Result<(Option<Json>, String), ParseCallsError> {
    if message.kind() == "array" {
        return Ok((Some(message.clone()), "parts".to_owned()));
    }
    if message.kind() != "object" {
        return Err(ParseCallsError::unexpected_type(
            "message",
            Some(message),
            "an object or an array",
        ));
    }
    let present = |json: Option<Json>| json.filter(|json| json.kind() != "null");
    let (content, path) = match present(message.get("candidates")) {
        // A prompt that was blocked has no candidate, and a candidate that was, no content.
        Some(candidates) => {
            let first = candidates.elements().into_iter().next();
            let content = present(first.and_then(|first| first.get("content")));
            (content, "candidates[0].content.parts")
        }
        None => (Some(message.clone()), "parts"),
    };
    let parts = present(content.and_then(|content| content.get("parts")));
    Ok((parts, path.to_owned()))
}

/// Google's SDK for Python prints the names with underscores.
fn parse_call(part: &Json, path: &str) -> Result<Option<ToolCallRequest>, ParseCallsError> {
    let [camel, snake] = part.pick(["functionCall", "function_call"]);
    let present = |json: Option<Json>| json.filter(|json| json.kind() != "null");
    let member = if present(camel.clone()).is_some() { "functionCall" } else { "function_call" };
    let Some(call) = present(camel).or(present(snake)) else { return Ok(None) };
    let path = format!("{path}{member}.");
    let id = tool_calls::optional_string(&call, "id", &path)?;
    let name = tool_calls::required_string(&call, "name", &path)?;
    Ok(Some(ToolCallRequest {
        id,
        name,
        namespace: None,
        arguments_text: tool_calls::arguments_text(call.get("args")),
    }))
}
