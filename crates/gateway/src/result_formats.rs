//! Result formats of the safety-level library (`ToolResult`) and of the research registry
//! (`ToolOutput`), both built from one [`tool::call_outcome::CallResponse`], and the registry's
//! list of tools.
//!
//! For embedding programs, and for REST requests that ask for them. They decide nothing: a refused
//! call is refused in every format.

mod approval_callback;
mod tool_output;
mod tool_runner;

use serde::Serialize;
use tool::artifact::artifact_preview;
use tool::{Json, Outcome, OutcomeBody};

pub use approval_callback::{ApprovalCallback, CallbackApprover, CallbackVerdict};
pub use tool_output::{ToolOutput, list_tool};
pub use tool_runner::{ModelToolCall, ToolResult, ToolResultMetadata, ToolRunner};

/// Returns an outcome as one value: the tool's result, or of an MCP result its structured content
/// or text.
fn outcome_value(outcome: &Outcome) -> serde_json::Value {
    let json = match &outcome.body {
        OutcomeBody::Value(json) => return json.to_value(),
        OutcomeBody::Mcp(json) => {
            artifact_preview(json).map_or_else(|| json.to_value(), |preview| preview.to_value())
        }
    };
    if let Some(structured) = json.get("structuredContent") {
        return structured.clone();
    }
    let Some(blocks) = json.get("content").and_then(serde_json::Value::as_array) else {
        return json;
    };
    let texts: Option<Vec<&str>> = blocks.iter().map(|block| block.get("text")?.as_str()).collect();
    match texts {
        Some(texts) if !texts.is_empty() => texts.join("\n").into(),
        _ => serde_json::Value::Array(blocks.clone()),
    }
}

/// Returns a value as text: a string as it is, other values as JSON.
fn value_to_text(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        other => Json::encode(other).as_str().to_owned(),
    }
}

/// A tool in the research registry's list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListedTool {
    /// Name of the tool.
    pub name: String,
    /// Description of the tool.
    pub description: String,
    /// First category; empty if it has none.
    pub category: String,
    /// Parameters by name: JSON Schema properties, each with `required`.
    pub parameters: serde_json::Map<String, serde_json::Value>,
    /// True if an MCP server runs it.
    pub mcp_backed: bool,
    /// Declared side effects; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub side_effects: Vec<&'static str>,
    /// True if the tool is destructive; absent otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub destructive: bool,
}

#[cfg(test)]
mod tests;
