//! A registry for those who embed Toolkeep as a library: register, look up, filter. No server, no
//! policy beyond the filter.

use std::collections::HashMap;
use std::sync::Arc;

use tool::{Executor, Item, Listing, Offer, Org, Safety, SourceName, Tool, ToolName, Trust};

use crate::entry::Entry;
use crate::merge::Catalog;
use crate::shelf::Shelf;

/// What to do where the name is taken by another definition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// Keep the first.
    #[default]
    Refuse,
    /// Take the new one, in the first one's place.
    Replace,
}

/// Why a tool was not registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// The name is taken by another definition.
    #[error("Tool {0} already registered")]
    Taken(ToolName),
    /// Its schema cannot be used.
    #[error("tool `{name}`: {reason}")]
    Schema {
        /// The tool.
        name: ToolName,
        /// What is wrong.
        reason: String,
    },
    /// Prompts and resources belong to MCP servers; a registry keeps tools.
    #[error("only tools can be registered")]
    NotATool,
}

/// Tools by name, in the order they came. Looking one up is one step, whatever their number.
#[derive(Debug)]
pub struct Registry {
    source: SourceName,
    tools: Vec<Arc<Entry>>,
    by_name: HashMap<ToolName, usize>,
}

impl Registry {
    /// An empty one. `source` names it in keys and records.
    pub fn new(source: SourceName) -> Self {
        Self { source, tools: Vec::new(), by_name: HashMap::new() }
    }

    /// Registers a tool with what runs it. The same definition again changes nothing, unless it is to replace
    /// what is there: then the executor is replaced too.
    ///
    /// # Errors
    /// [`RegisterError`]; the registry is then as it was.
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

    /// Registers what a source offers.
    ///
    /// # Errors
    /// As [`Registry::register`]; prompts, resources and methods are no tools.
    pub fn offer(&mut self, offer: Offer) -> Result<Arc<Entry>, RegisterError> {
        match offer.item {
            Item::Tool(tool) => self.register(tool, offer.executor, OnConflict::Refuse),
            Item::Prompt(_) | Item::Resource(_) | Item::Method(_) => Err(RegisterError::NotATool),
        }
    }

    /// A tool, or nothing.
    pub fn get(&self, name: &str) -> Option<&Arc<Entry>> {
        self.by_name.get(name).and_then(|&at| self.tools.get(at))
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &ToolName> {
        self.tools.iter().map(|entry| &entry.key.name)
    }

    /// All tools, in order.
    pub fn tools(&self) -> &[Arc<Entry>] {
        &self.tools
    }

    /// Tools at or below a safety limit and in at least one of the categories; both where both are
    /// given, all where neither is.
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

    /// The tools as a catalog, which a gateway needs to run them. `number` names it on record; count it up for each.
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

    /// How many.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// None at all.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }
}

#[cfg(test)]
mod tests;
