//! Facts about a tool that policy decides on.

use tool::{Org, Tool, ToolKey, Traits};

/// Identity and traits of a tool. No text: descriptions never change a decision.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Organisation of the tool.
    pub org: &'a Org,
    /// Name of its source.
    pub source: &'a str,
    /// Name of the tool.
    pub name: &'a str,
    /// Traits of the tool.
    pub traits: &'a Traits,
}

impl<'a> Facts<'a> {
    /// Returns the facts of a tool in a catalog.
    pub fn of(key: &'a ToolKey, tool: &'a Tool) -> Self {
        let (source, name) = (key.source.as_str(), key.name.as_str());
        Self { org: &key.org, source, name, traits: &tool.traits }
    }
}
