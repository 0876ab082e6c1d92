//! A registry for programs that embed Toolkeep: register, look up, filter. It has no server and no
//! policy beyond the filter.

use std::collections::HashMap;
use std::sync::Arc;

use tool::{Executor, Item, Listing, Offer, Org, Safety, SourceName, Tool, ToolName, Trust};

use crate::entry::Entry;
use crate::merge::Catalog;
use crate::shelf::Shelf;

/// Behaviour if the name is taken by another definition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// Keeps the first tool.
    #[default]
    Refuse,
    /// Replaces the first tool by the new one.
    Replace,
}

/// Errors of registering a tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// The name is taken by another definition.
    #[error("Tool {0} already registered")]
    Taken(ToolName),
    /// The input schema is invalid.
    #[error("tool `{name}`: {reason}")]
    Schema {
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
pub struct Registry {
    source: SourceName,
    tools: Vec<Arc<Entry>>,
    by_name: HashMap<ToolName, usize>,
}

impl Registry {
    /// Creates an empty registry. `source` names it in keys and records.
    pub fn new(source: SourceName) -> Self {
        Self { source, tools: Vec::new(), by_name: HashMap::new() }
    }

    /// Registers a tool with its executor. The same definition again changes nothing, unless it
    /// replaces the first: then the executor is replaced too.
    ///
    /// # Errors
    /// [`RegisterError`]; the registry is then unchanged.
    pub fn register(
        &mut self,
        tool: Arc<Tool>,
        executor: Arc<dyn Executor>,
        on_conflict: OnConflict,
    ) -> Result<Arc<Entry>, RegisterError> {
        let name = tool.name.clone();
        let entry = Entry::new(Org::default(), self.source.clone(), tool, executor)
            .map_err(|reason| RegisterError::Schema { name: name.clone(), reason })?;
        let entry = Arc::new(entry);
        let taken = self.by_name.get(&name).and_then(|&at| self.tools.get_mut(at));
        match taken {
            None => {
                self.by_name.insert(name, self.tools.len());
                self.tools.push(Arc::clone(&entry));
            }
            Some(first) if on_conflict == OnConflict::Replace => *first = Arc::clone(&entry),
            Some(first) if first.definition == entry.definition => return Ok(Arc::clone(first)),
            Some(_) => return Err(RegisterError::Taken(name)),
        }
        Ok(entry)
    }

    /// Registers an offer of a source.
    ///
    /// # Errors
    /// As [`Registry::register`]; prompts, resources and methods are rejected.
    pub fn offer(&mut self, offer: Offer) -> Result<Arc<Entry>, RegisterError> {
        match offer.item {
            Item::Tool(tool) => self.register(tool, offer.executor, OnConflict::Refuse),
            Item::Prompt(_) | Item::Resource(_) | Item::Method(_) => Err(RegisterError::NotATool),
        }
    }

    /// Returns a tool by name.
    pub fn get(&self, name: &str) -> Option<&Arc<Entry>> {
        self.by_name.get(name).and_then(|&at| self.tools.get(at))
    }

    /// Iterates over the names in order.
    pub fn names(&self) -> impl Iterator<Item = &ToolName> {
        self.tools.iter().map(|entry| &entry.key.name)
    }

    /// Returns all tools in order.
    pub fn tools(&self) -> &[Arc<Entry>] {
        &self.tools
    }

    /// Iterates over tools at or below a safety level and in at least one of the categories, where
    /// given.
    pub fn filter<'a>(
        &'a self,
        limit: Option<Safety>,
        categories: Option<&'a [&'a str]>,
    ) -> impl Iterator<Item = &'a Arc<Entry>> {
        self.tools.iter().filter(move |entry| {
            let traits = &entry.tool.traits;
            let in_one = |wanted: &[&str]| {
                traits.categories.iter().any(|category| wanted.contains(&category.as_str()))
            };
            limit.is_none_or(|limit| traits.safety <= limit) && categories.is_none_or(in_one)
        })
    }

    /// Creates a catalog, which a gateway needs to run the tools. `number` is its version in
    /// records; increase it for each.
    pub fn catalog(&self, number: u64) -> Catalog {
        let offer = |entry: &Arc<Entry>| Offer {
            item: Item::Tool(Arc::clone(&entry.tool)),
            executor: Arc::clone(&entry.executor),
        };
        let offers = self.tools.iter().map(offer).collect();
        let listing = Listing { offers, ..Listing::default() };
        let shelf = Shelf::starting(self.source.clone(), "library", Trust::Full);
        Catalog::merge(number, vec![Arc::new(shelf.listed(&Org::default(), listing))])
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
