//! OpenAI Chat Completions: `tools`, `tool_calls` and `role: "tool"` messages.
//!
//! Arguments come as a JSON string that may not be JSON at all; some who copy the shape send the
//! object itself, or no arguments where there are none. All three are read.

use serde_json::json;
use tool::{Args, Body, Json, Limits, Outcome, Tool};

use crate::calls::{CallsError, MAX_CALLS, RequestedCall, arguments, text};
use crate::mcp;

pub(crate) fn tool(tool: &Tool, name: &str) -> Json {
    let function = Json::fields([
        ("name", &Json::of(name)),
        ("description", &Json::of(&tool.description)),
        ("parameters", &tool.input),
    ]);
    Json::fields([("type", &Json::of("function")), ("function", &function)])
}

/// The shape has no flag for a failure, so the text says it, in the word spec 0 uses.
pub(crate) fn outcome(outcome: &Outcome, id: &str) -> Json {
    let text = match &outcome.body {
        Body::Value(value) => value_text(value),
        Body::Mcp(result) => mcp::result_text(result),
    };
    let text = if outcome.is_error { format!("Error: {text}") } else { text };
    Json::of(&json!({ "role": "tool", "tool_call_id": id, "content": text }))
}

/// A string is its own text; everything else is its JSON.
pub(crate) fn value_text(value: &Json) -> String {
    value.read::<String>().unwrap_or_else(|_| value.as_str().to_owned())
}

pub(crate) fn calls(message: &Json) -> Result<Vec<RequestedCall>, CallsError> {
    let (calls, path) = find_calls(message)?;
    let Some(calls) = calls else { return Ok(Vec::new()) };
    if calls.kind() != "array" {
        return Err(CallsError::shape(&path, Some(&calls), "an array"));
    }
    let calls = calls.elements();
    if calls.len() > MAX_CALLS {
        return Err(CallsError::TooMany { path, found: calls.len() });
    }
    let read = |(index, call)| read_call(call, &format!("{path}[{index}]."));
    calls.iter().enumerate().map(read).collect()
}

/// The array of calls in a completion, a message, or the array itself. A message without one asks
/// for none.
fn find_calls(message: &Json) -> Result<(Option<Json>, String), CallsError> {
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

fn read_call(call: &Json, path: &str) -> Result<RequestedCall, CallsError> {
    let id = text(call, "id", path)?;
    // Absent where the shape is copied loosely; `custom` tools take free text and are none of ours.
    if let Some(found) = call.get("type").and_then(|kind| kind.read::<String>().ok())
        && found != "function"
    {
        let (path, found) = (format!("{path}type"), format!("`{found}`"));
        return Err(CallsError::Shape { path, found, expected: "`function`" });
    }
    let function = call.get("function").filter(|function| function.kind() == "object");
    let function = function.ok_or_else(|| {
        CallsError::shape(&format!("{path}function"), call.get("function").as_ref(), "an object")
    })?;
    let name = text(&function, "name", &format!("{path}function."))?;
    let args = arguments(read_arguments(function.get("arguments")), &name);
    Ok(RequestedCall { id: Some(id), name, args })
}

fn read_arguments(arguments: Option<Json>) -> Result<Args, tool::JsonError> {
    let Some(arguments) = arguments.filter(|json| json.kind() != "null") else {
        return Args::from_json(Json::empty());
    };
    let text = match arguments.read::<String>() {
        // What models send for a tool without parameters.
        Ok(text) if text.trim().is_empty() => return Args::from_json(Json::empty()),
        Ok(text) => text.into(),
        Err(_) => arguments.bytes().clone(),
    };
    Json::check(text, Limits::ARGUMENTS).and_then(Args::from_json)
}
