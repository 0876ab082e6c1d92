//! OpenAI Responses: flat `tools`, `function_call` items and `function_call_output` items.

use serde_json::json;
use tool::{Json, Tool};

use crate::calls::{self, Answered, CallsError, RequestedCall};
use crate::lower::{Loss, rules};
use crate::{Rendered, results};

/// `strict` is required there; where it is not said to be false, it is taken to be true.
pub(crate) fn tool(tool: &Tool, name: &str) -> Result<Rendered, Loss> {
    written(tool, name, false)
}

pub(crate) fn strict(tool: &Tool, name: &str) -> Result<Rendered, Loss> {
    crate::or_loose(written(tool, name, true), || written(tool, name, false))
}

fn written(tool: &Tool, name: &str, strict: bool) -> Result<Rendered, Loss> {
    let rules = if strict { &rules::OPENAI_STRICT } else { &rules::OPENAI };
    Rendered::lowered(tool, rules, |description, schema| {
        Json::fields([
            ("type", &Json::of("function")),
            ("name", &Json::of(name)),
            ("description", &Json::of(description)),
            ("parameters", &schema.schema),
            ("strict", &Json::of(&strict)),
        ])
    })
}

/// An item is matched by the `call_id` of its call, not by the call's `id`.
pub(crate) fn result(answered: &Answered) -> Json {
    let (id, text) =
        (answered.id.as_deref().unwrap_or_default(), results::flagged(&answered.outcome));
    Json::of(&json!({ "type": "function_call_output", "call_id": id, "output": text }))
}

/// The items.
pub(crate) fn message(calls: &[RequestedCall]) -> Json {
    let item = |call: &RequestedCall| {
        Json::fields([
            ("type", &Json::of("function_call")),
            ("call_id", &Json::of(call.id.as_deref().unwrap_or_default())),
            ("name", &Json::of(&call.name)),
            ("arguments", &calls::as_string(call)),
        ])
    };
    Json::array(&calls.iter().map(item).collect::<Vec<_>>())
}

/// Of a whole response, of its `output`, or of one item.
pub(crate) fn calls(message: &Json) -> Result<Vec<RequestedCall>, CallsError> {
    let output = match message.kind() {
        "array" => message.clone(),
        "object" => match message.get("output") {
            Some(output) => output,
            None => Json::array([message]),
        },
        _ => return Err(CallsError::shape("message", Some(message), "an object or an array")),
    };
    calls::each(&calls::elements(&output, "output")?, "output", read)
}

/// Items of other types are no calls of ours: reasoning, messages, what OpenAI runs itself.
fn read(item: &Json, path: &str) -> Result<Option<RequestedCall>, CallsError> {
    let kind = calls::text(item, "type", path)?;
    match kind.as_str() {
        "function_call" => {}
        "custom_tool_call" => {
            let (path, found) = (format!("{path}type"), format!("`{kind}`"));
            return Err(CallsError::Shape { path, found, expected: "`function_call`" });
        }
        _ => return Ok(None),
    }
    let id = calls::text(item, "call_id", path)?;
    let name = calls::text(item, "name", path)?;
    Ok(Some(RequestedCall { id: Some(id), name, text: calls::written(item.get("arguments")) }))
}
