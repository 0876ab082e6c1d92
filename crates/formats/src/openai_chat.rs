//! OpenAI Chat Completions: `tools`, `tool_calls` and `role: "tool"` messages.
//!
//! Arguments come as a JSON string that may not be JSON at all; some who copy the shape send the
//! object itself, or no arguments where there are none. All three are read.

use serde_json::json;
use tool::{Json, Tool};

use crate::calls::{self, Answered, CallsError, RequestedCall};
use crate::lower::{Loss, rules};
use crate::{Rendered, results};

pub(crate) fn tool(tool: &Tool, name: &str) -> Result<Rendered, Loss> {
    Rendered::lowered(tool, &rules::OPENAI, |description, schema| {
        let function = Json::fields([
            ("name", &Json::of(name)),
            ("description", &Json::of(description)),
            ("parameters", &schema.schema),
        ]);
        Json::fields([("type", &Json::of("function")), ("function", &function)])
    })
}

pub(crate) fn strict(tool: &Tool, name: &str) -> Result<Rendered, Loss> {
    let strict = Rendered::lowered(tool, &rules::OPENAI_STRICT, |description, schema| {
        let function = Json::fields([
            ("name", &Json::of(name)),
            ("description", &Json::of(description)),
            ("parameters", &schema.schema),
            ("strict", &Json::of(&true)),
        ]);
        Json::fields([("type", &Json::of("function")), ("function", &function)])
    });
    crate::or_loose(strict, || self::tool(tool, name))
}

/// The shape has no flag for a failure, so the text says it.
pub(crate) fn result(answered: &Answered) -> Json {
    let (id, text) =
        (answered.id.as_deref().unwrap_or_default(), results::flagged(&answered.outcome));
    Json::of(&json!({ "role": "tool", "tool_call_id": id, "content": text }))
}

/// The assistant's message.
pub(crate) fn message(calls: &[RequestedCall]) -> Json {
    let calls: Vec<_> = calls.iter().map(call).collect();
    let (role, content) = (Json::of("assistant"), Json::of(&()));
    Json::fields([("role", &role), ("content", &content), ("tool_calls", &Json::array(&calls))])
}

fn call(call: &RequestedCall) -> Json {
    let (name, arguments) = (Json::of(&call.name), calls::as_string(call));
    let function = Json::fields([("name", &name), ("arguments", &arguments)]);
    let id = Json::of(call.id.as_deref().unwrap_or_default());
    Json::fields([("id", &id), ("type", &Json::of("function")), ("function", &function)])
}

pub(crate) fn calls(message: &Json) -> Result<Vec<RequestedCall>, CallsError> {
    let (found, path) = find(message)?;
    let Some(found) = found else { return Ok(Vec::new()) };
    calls::each(&calls::elements(&found, &path)?, &path, read)
}

/// The array of calls in a completion, a message, or the array itself. A message without one asks
/// for none.
fn find(message: &Json) -> Result<(Option<Json>, String), CallsError> {
    if message.kind() == "array" {
        return Ok((Some(message.clone()), "tool_calls".into()));
    }
    let (message, path) = match message.get("choices") {
        None => (message.clone(), ""),
        Some(choices) => {
            let first = choices.elements().into_iter().next().and_then(|c| c.get("message"));
            let missing = || CallsError::shape("choices[0].message", None, "an object");
            (first.ok_or_else(missing)?, "choices[0].message.")
        }
    };
    if message.kind() != "object" {
        let place = if path.is_empty() { "message" } else { "choices[0].message" };
        return Err(CallsError::shape(place, Some(&message), "an object"));
    }
    let calls = message.get("tool_calls").filter(|calls| calls.kind() != "null");
    Ok((calls, format!("{path}tool_calls")))
}

fn read(call: &Json, path: &str) -> Result<Option<RequestedCall>, CallsError> {
    let id = calls::text(call, "id", path)?;
    // Absent where the shape is copied loosely; `custom` tools take free text and are none of ours.
    if let Some(found) = call.get("type").and_then(|kind| kind.read::<String>().ok())
        && found != "function"
    {
        let (path, found) = (format!("{path}type"), format!("`{found}`"));
        return Err(CallsError::Shape { path, found, expected: "`function`" });
    }
    let function = calls::object(call, "function", path)?;
    let name = calls::text(&function, "name", &format!("{path}function."))?;
    let text = calls::written(function.get("arguments"));
    Ok(Some(RequestedCall { id: Some(id), name, text }))
}
