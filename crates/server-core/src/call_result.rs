//! The answer of a call as one value, for interfaces that are not MCP.

use serde::Deserialize;
use serde_json::value::RawValue;
use tool::artefact::preview_of;
use tool::outcome::Body as Answered;
use tool::{Json, Outcome};

#[derive(Deserialize)]
struct McpResult<'a> {
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

/// The answer as one value, and the content blocks of an MCP answer beside it. Of what stands for an answer that was too large:
/// its beginning and the artefact. Of an MCP answer: its structured content, or its text where that is all there is, or its
/// content blocks.
pub fn shown(outcome: Outcome) -> (Json, Option<Json>) {
    let json = match outcome.body {
        Answered::Value(json) => return (json, None),
        Answered::Mcp(json) => json,
    };
    if let Some(preview) = preview_of(&json) {
        return (preview, json.get("content"));
    }
    let Ok(result) = serde_json::from_str::<McpResult<'_>>(json.as_str()) else {
        return (json, None);
    };
    let content = result.content.map(Json::of);
    let text = result.content.and_then(|content| {
        let blocks: Vec<TextBlock> = serde_json::from_str(content.get()).ok()?;
        match blocks.as_slice() {
            [block] if block.r#type == "text" => Some(Json::of(&block.text)),
            _ => None,
        }
    });
    let value = result.structured.map(Json::of).or(text).or_else(|| content.clone());
    (value.unwrap_or(json), content)
}
