//! What policy sees of a tool.

use tool::{Org, Tool, ToolKey, Traits};

/// A tool's identity and traits. Nothing of its words: no description changes a decision.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Whose.
    pub org: &'a Org,
    /// Its source's name.
    pub source: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its traits.
    pub traits: &'a Traits,
}

impl<'a> Facts<'a> {
    /// Of a tool in a catalog.
    pub fn of(key: &'a ToolKey, tool: &'a Tool) -> Self {
        let (source, name) = (key.source.as_str(), key.name.as_str());
        Self { org: &key.org, source, name, traits: &tool.traits }
    }
}
