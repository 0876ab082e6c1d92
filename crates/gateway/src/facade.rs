//! Result formats of the safety-level library (`ToolResult`) and of the tool-file registry
//! (`ToolOutput`), both built from one [`Answer`], and the registry's list of tools.
//!
//! For embedding programs, and for REST requests that ask for them. They decide nothing: a refused
//! call is refused in every format.

mod approver;
mod output;
mod runner;

use serde::Serialize;
use tool::artefact::preview_of;
use tool::{Body, Json, Outcome};

pub use approver::{Approver, Ask, Verdict};
pub use output::{ToolOutput, listed};
pub use runner::{Asked, Metadata, Runner, ToolResult};

/// Returns an outcome as one value: the tool's result, or of an MCP result its structured content
/// or text.
fn value(outcome: &Outcome) -> serde_json::Value {
    let json = match &outcome.body {
        Body::Value(json) => return json.value(),
        Body::Mcp(json) => preview_of(json).map_or_else(|| json.value(), |preview| preview.value()),
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
fn text(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        other => Json::of(other).as_str().to_owned(),
    }
}

/// A tool in the tool-file registry's list.
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
