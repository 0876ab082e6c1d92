//! Facts about a tool that policy decides on.

use tool::{Org, Tool, ToolKey, ToolTraits};

/// Identity and traits of a tool. No text: descriptions never change a decision.
#[derive(Debug, Clone, Copy)]
pub struct ToolFacts<'a> {
    /// Organisation of the tool.
    pub org: &'a Org,
    /// Name of its source.
    pub source: &'a str,
    /// Name of the tool.
    pub name: &'a str,
    /// Traits of the tool.
    pub traits: &'a ToolTraits,
}

impl<'a> ToolFacts<'a> {
    /// Returns the facts of a tool in a catalog.
    pub fn from_tool(key: &'a ToolKey, tool: &'a Tool) -> Self {
        let (source, name) = (key.source.as_str(), key.name.as_str());
        Self { org: &key.org, source, name, traits: &tool.traits }
    }
}
