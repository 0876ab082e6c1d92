//! A registry for programs that embed Toolkeep: register, look up, filter. It has no server and no
//! policy beyond the filter.

use std::collections::HashMap;
use std::sync::Arc;

use tool::{
    CatalogItem, Executor, Offer, Org, SafetyLevel, SourceListing, SourceName, SourceTrust, Tool,
    ToolName,
};

use crate::catalog_entry::CatalogEntry;
use crate::merged_catalog::Catalog;
use crate::source_catalog::SourceCatalog;

/// Behaviour if the name is taken by another definition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ConflictPolicy {
    /// Keeps the first tool.
    #[default]
    KeepFirst,
    /// Replaces the first tool by the new one.
    Replace,
}

/// Errors of registering a tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// The name is taken by another definition.
    #[error("Tool {0} already registered")]
    NameTaken(ToolName),
    /// The input schema is invalid.
    #[error("tool `{name}`: {reason}")]
    InvalidSchema {
        /// Name of the tool.
        name: ToolName,
        /// Reason, as a message for people.
        reason: String,
    },
    /// Prompts and resources belong to MCP servers; a registry holds tools only.
    #[error("only tools can be registered")]
    NotATool,
}

/// Tools by name, in order of registration. Lookup takes constant time.
#[derive(Debug)]
pub struct ToolRegistry {
    source: SourceName,
    tools: Vec<Arc<CatalogEntry>>,
    by_name: HashMap<ToolName, usize>,
}

impl ToolRegistry {
    /// Creates an empty registry. `source` names it in keys and records.
    pub fn new(source: SourceName) -> Self {
        Self { source, tools: Vec::new(), by_name: HashMap::new() }
    }

    /// Registers a tool with its executor. The same definition again changes nothing, unless it
    /// replaces the first: then the executor is replaced too.
    ///
    /// # Errors
    /// [`RegisterError`]; the registry is then unchanged.
    pub fn register_tool(
        &mut self,
        tool: Arc<Tool>,
        executor: Arc<dyn Executor>,
        on_conflict: ConflictPolicy,
    ) -> Result<Arc<CatalogEntry>, RegisterError> {
        let name = tool.name.clone();
        let entry = CatalogEntry::new(Org::default(), self.source.clone(), tool, executor)
            .map_err(|reason| RegisterError::InvalidSchema { name: name.clone(), reason })?;
        let entry = Arc::new(entry);
        let taken = self.by_name.get(&name).and_then(|&at| self.tools.get_mut(at));
        match taken {
            None => {
                self.by_name.insert(name, self.tools.len());
                self.tools.push(Arc::clone(&entry));
            }
            Some(first) if on_conflict == ConflictPolicy::Replace => *first = Arc::clone(&entry),
            Some(first) if first.definition_digest == entry.definition_digest => {
                return Ok(Arc::clone(first));
            }
            Some(_) => return Err(RegisterError::NameTaken(name)),
        }
        Ok(entry)
    }

    /// Registers an offer of a source.
    ///
    /// # Errors
    /// As [`ToolRegistry::register_tool`]; prompts, resources and methods are rejected.
    pub fn register_offer(&mut self, offer: Offer) -> Result<Arc<CatalogEntry>, RegisterError> {
        match offer.item {
            CatalogItem::Tool(tool) => {
                self.register_tool(tool, offer.executor, ConflictPolicy::KeepFirst)
            }
            CatalogItem::Prompt(_)
            | CatalogItem::Resource(_)
            | CatalogItem::Skill(_)
            | CatalogItem::Event(_)
            | CatalogItem::Method(_) => Err(RegisterError::NotATool),
        }
    }

    /// Returns a tool by name.
    pub fn get_tool(&self, name: &str) -> Option<&Arc<CatalogEntry>> {
        self.by_name.get(name).and_then(|&at| self.tools.get(at))
    }

    /// Iterates over the names in order.
    pub fn names(&self) -> impl Iterator<Item = &ToolName> {
        self.tools.iter().map(|entry| &entry.tool_key.name)
    }

    /// Returns all tools in order.
    pub fn tools(&self) -> &[Arc<CatalogEntry>] {
        &self.tools
    }

    /// Iterates over tools at or below a safety level and in at least one of the categories, where
    /// given.
    pub fn filter_tools<'a>(
        &'a self,
        limit: Option<SafetyLevel>,
        categories: Option<&'a [&'a str]>,
    ) -> impl Iterator<Item = &'a Arc<CatalogEntry>> {
        self.tools.iter().filter(move |entry| {
            let traits = &entry.tool.traits;
            let in_one = |wanted: &[&str]| {
                traits.categories.iter().any(|category| wanted.contains(&category.as_str()))
            };
            limit.is_none_or(|limit| traits.safety <= limit) && categories.is_none_or(in_one)
        })
    }

    /// Creates a catalog, which a gateway needs to run the tools. `version` is its version in
    /// records; increase it for each.
    pub fn to_catalog(&self, version: u64) -> Catalog {
        let offer = |entry: &Arc<CatalogEntry>| Offer {
            item: CatalogItem::Tool(Arc::clone(&entry.tool)),
            executor: Arc::clone(&entry.executor),
        };
        let offers = self.tools.iter().map(offer).collect();
        let listing = SourceListing { offers, ..SourceListing::default() };
        let shelf = SourceCatalog::new_starting(self.source.clone(), "library", SourceTrust::Full);
        Catalog::from_sources(version, vec![Arc::new(shelf.with_listing(&Org::default(), listing))])
    }

    /// Returns the number of tools.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Returns true if there is no tool.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }
}

#[cfg(test)]
mod tests;
