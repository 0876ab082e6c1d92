//! Ollama: tools as OpenAI writes them, `tool_calls` with objects and `role: "tool"` messages.

use tool::{Json, Tool};

use crate::calls::{self, Answered, CallsError, RequestedCall};
use crate::lower::{Loss, rules};
use crate::{Rendered, results};

pub(crate) fn tool(tool: &Tool, name: &str) -> Result<Rendered, Loss> {
    Rendered::lowered(tool, &rules::OLLAMA, |description, schema| {
        let function = Json::fields([
            ("name", &Json::of(name)),
            ("description", &Json::of(description)),
            ("parameters", &schema.schema),
        ]);
        Json::fields([("type", &Json::of("function")), ("function", &function)])
    })
}

/// The shape has no flag for a failure, so the text says it.
pub(crate) fn result(answered: &Answered) -> Json {
    let text = Json::of(&results::flagged(&answered.outcome));
    let (id, name) = (answered.id.as_ref().map(Json::of), Json::of(&answered.name));
    let fields = [
        Some(("role", &Json::of("tool"))),
        Some(("content", &text)),
        Some(("tool_name", &name)),
        id.as_ref().map(|id| ("tool_call_id", id)),
    ];
    Json::fields(fields.into_iter().flatten())
}

/// The assistant's message.
pub(crate) fn message(calls: &[RequestedCall]) -> Json {
    let call = |call: &RequestedCall| {
        let (name, arguments) = (Json::of(&call.name), calls::as_object(call));
        let function = Json::fields([("name", &name), ("arguments", &arguments)]);
        let id = call.id.as_ref().map(Json::of);
        let fields = [id.as_ref().map(|id| ("id", id)), Some(("function", &function))];
        Json::fields(fields.into_iter().flatten())
    };
    let calls: Vec<_> = calls.iter().map(call).collect();
    let (role, content) = (Json::of("assistant"), Json::of(""));
    Json::fields([("role", &role), ("content", &content), ("tool_calls", &Json::array(&calls))])
}

/// Of a whole response, of its `message`, or of its `tool_calls`.
pub(crate) fn calls(message: &Json) -> Result<Vec<RequestedCall>, CallsError> {
    let (found, path) = match message.kind() {
        "array" => (Some(message.clone()), "tool_calls"),
        "object" => match message.get("message") {
            Some(inner) if inner.kind() == "object" => {
                (inner.get("tool_calls"), "message.tool_calls")
            }
            Some(other) => return Err(CallsError::shape("message", Some(&other), "an object")),
            None => (message.get("tool_calls"), "tool_calls"),
        },
        _ => return Err(CallsError::shape("message", Some(message), "an object or an array")),
    };
    let Some(found) = found.filter(|found| found.kind() != "null") else { return Ok(Vec::new()) };
    calls::each(&calls::elements(&found, path)?, path, read)
}

/// Older servers give no id.
fn read(call: &Json, path: &str) -> Result<Option<RequestedCall>, CallsError> {
    let id = calls::optional(call, "id", path)?;
    let function = calls::object(call, "function", path)?;
    let name = calls::text(&function, "name", &format!("{path}function."))?;
    let text = calls::written(function.get("arguments"));
    Ok(Some(RequestedCall { id, name, text }))
}
