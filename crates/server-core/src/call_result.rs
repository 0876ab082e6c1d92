//! The result of a call as a single JSON value, for interfaces other than MCP.

use serde::Deserialize;
use serde_json::value::RawValue;
use tool::artifact::artifact_preview;
use tool::call_outcome::OutcomeBody as Answered;
use tool::{Json, Outcome};

#[derive(Deserialize)]
struct ToolResultFields<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "structuredContent")]
    structured: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct TextBlock {
    r#type: String,
    text: String,
}

/// Converts a tool result to a single value, and returns MCP content blocks separately. A result
/// that was too large becomes its preview and the artifact. An MCP result becomes its structured
/// content, its text if there is nothing else, or its content blocks.
pub fn to_plain_result(outcome: Outcome) -> (Json, Option<Json>) {
    let json = match outcome.body {
        Answered::Value(json) => return (json, None),
        Answered::Mcp(json) => json,
    };
    if let Some(preview) = artifact_preview(&json) {
        return (preview, json.get("content"));
    }
    let Ok(result) = serde_json::from_str::<ToolResultFields<'_>>(json.as_str()) else {
        return (json, None);
    };
    let content = result.content.map(Json::encode);
    let text = result.content.and_then(|content| {
        let blocks: Vec<TextBlock> = serde_json::from_str(content.get()).ok()?;
        match blocks.as_slice() {
            [block] if block.r#type == "text" => Some(Json::encode(&block.text)),
            _ => None,
        }
    });
    let value = result.structured.map(Json::encode).or(text).or_else(|| content.clone());
    (value.unwrap_or(json), content)
}
