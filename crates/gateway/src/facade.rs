//! Answers in the shapes of two specs: spec 1's result object and spec 3's `ToolOutput`, both made of
//! the one [`Answer`]; and spec 3's list of tools.
//!
//! For those who embed Toolkeep, and for the REST door where it is asked for them. They decide nothing:
//! what was refused is refused in every shape.

mod approver;
mod output;
mod runner;

use serde::Serialize;
use tool::artefact::preview_of;
use tool::{Body, Json, Outcome};

pub use approver::{Approver, Ask, Verdict};
pub use output::{ToolOutput, listed};
pub use runner::{Asked, Metadata, Runner, ToolResult};

/// An answer as one value: what the tool said, or of an MCP answer its structured content, or its text.
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

/// A value as text: a text as it is, all else as JSON.
fn text(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        other => Json::of(other).as_str().to_owned(),
    }
}

/// A tool in spec 3's list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListedTool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Its first category; empty where it has none.
    pub category: String,
    /// Its parameters by name: JSON Schema's properties, each with `required`.
    pub parameters: serde_json::Map<String, serde_json::Value>,
    /// Whether an MCP server runs it.
    pub mcp_backed: bool,
    /// What it declares to do beside answering; absent where that is nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub side_effects: Vec<&'static str>,
    /// Absent where it is not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub destructive: bool,
}

#[cfg(test)]
mod tests;
