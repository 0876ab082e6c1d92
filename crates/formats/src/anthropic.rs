//! Anthropic Messages: `tools`, `tool_use` blocks and one user message of `tool_result` blocks.

use tool::{Body, Json, Outcome, Tool};

use crate::calls::{self, Answered, CallsError, RequestedCall};
use crate::lower::{Loss, rules};
use crate::{Rendered, results};

/// Pictures that the provider takes.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

pub(crate) fn tool(tool: &Tool, name: &str) -> Result<Rendered, Loss> {
    Rendered::lowered(tool, &rules::ANTHROPIC, |description, schema| {
        Json::fields([
            ("name", &Json::of(name)),
            ("description", &Json::of(description)),
            ("input_schema", &schema.schema),
        ])
    })
}

/// All results are in one message: the provider wants one for each call, before anything else.
pub(crate) fn results(answered: &[Answered]) -> Json {
    let blocks: Vec<_> = answered.iter().map(block).collect();
    Json::fields([("role", &Json::of("user")), ("content", &Json::array(&blocks))])
}

fn block(answered: &Answered) -> Json {
    let outcome = &answered.outcome;
    let id = Json::of(answered.id.as_deref().unwrap_or_default());
    let content = pictured(outcome).unwrap_or_else(|| Json::of(&results::text(outcome)));
    let error = outcome.is_error.then(|| Json::of(&true));
    let fields = [
        Some(("type", &Json::of("tool_result"))),
        Some(("tool_use_id", &id)),
        Some(("content", &content)),
        error.as_ref().map(|error| ("is_error", error)),
    ];
    Json::fields(fields.into_iter().flatten())
}

/// An MCP result with pictures, as blocks. A failure has to be all text.
fn pictured(outcome: &Outcome) -> Option<Json> {
    let Body::Mcp(result) = &outcome.body else { return None };
    let parts = result.get("content")?.elements();
    let blocks: Vec<_> = parts.iter().map(|part| picture(part).ok_or(part)).collect();
    if outcome.is_error || blocks.iter().all(Result::is_err) {
        return None;
    }
    let text = |part: &Json| {
        let text = Json::of(&crate::mcp::part_text(part));
        Json::fields([("type", &Json::of("text")), ("text", &text)])
    };
    let blocks = blocks.into_iter().map(|block| block.unwrap_or_else(text));
    Some(Json::array(&blocks.collect::<Vec<_>>()))
}

fn picture(part: &Json) -> Option<Json> {
    let [kind, mime, data] = part.pick(["type", "mimeType", "data"]);
    let known = PICTURES.contains(&mime.as_ref()?.read::<String>().ok()?.as_str());
    if kind?.as_str() != "\"image\"" || !known {
        return None;
    }
    let source =
        Json::fields([("type", &Json::of("base64")), ("media_type", &mime?), ("data", &data?)]);
    Some(Json::fields([("type", &Json::of("image")), ("source", &source)]))
}

/// The assistant's message.
pub(crate) fn message(calls: &[RequestedCall]) -> Json {
    let block = |call: &RequestedCall| {
        Json::fields([
            ("type", &Json::of("tool_use")),
            ("id", &Json::of(call.id.as_deref().unwrap_or_default())),
            ("name", &Json::of(&call.name)),
            ("input", &calls::as_object(call)),
        ])
    };
    let blocks: Vec<_> = calls.iter().map(block).collect();
    Json::fields([("role", &Json::of("assistant")), ("content", &Json::array(&blocks))])
}

/// Of a message, or of its `content`.
pub(crate) fn calls(message: &Json) -> Result<Vec<RequestedCall>, CallsError> {
    let content = match message.kind() {
        "array" => message.clone(),
        "object" => message
            .get("content")
            .ok_or_else(|| CallsError::shape("content", None, "an array of blocks"))?,
        _ => return Err(CallsError::shape("message", Some(message), "an object or an array")),
    };
    if content.kind() == "string" {
        return Ok(Vec::new());
    }
    calls::each(&calls::elements(&content, "content")?, "content", read)
}

/// Other blocks are no calls of ours: text, thinking, what Anthropic runs itself.
fn read(block: &Json, path: &str) -> Result<Option<RequestedCall>, CallsError> {
    if calls::text(block, "type", path)? != "tool_use" {
        return Ok(None);
    }
    let id = calls::text(block, "id", path)?;
    let name = calls::text(block, "name", path)?;
    Ok(Some(RequestedCall { id: Some(id), name, text: calls::written(block.get("input")) }))
}
