//! One source in a catalog.

use std::collections::BTreeMap;
use std::sync::Arc;

use tool::Problem;

use crate::claim::Claim;
use crate::entry::Entry;
use crate::shelf::Shelf;

/// A source catalog and the tools that won their names. Catalogs share it as long as it does not
/// change.
#[derive(Debug, Clone)]
pub struct Part {
    shelf: Arc<Shelf>,
    /// Tools by index; `None` if other sources have both possible names.
    tools: Vec<Option<Arc<Entry>>>,
    len: usize,
    /// Lost names, and titles that look like another source's tool.
    told: BTreeMap<Claim, Problem>,
}

/// Outcome of a claim.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) claim: Claim,
    /// Tool, if it won a name and can be called.
    pub(crate) tool: Option<Arc<Entry>>,
    pub(crate) told: Option<Problem>,
}

impl Part {
    /// Creates a merged source without resolved claims.
    pub(crate) fn new(shelf: Arc<Shelf>) -> Self {
        let tools = vec![None; shelf.tools.len()];
        Self { shelf, tools, len: 0, told: BTreeMap::new() }
    }

    /// Returns the source catalog.
    pub fn shelf(&self) -> &Arc<Shelf> {
        &self.shelf
    }

    /// Iterates over its tools in their source's order.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<Entry>> + Clone {
        self.tools.iter().flatten()
    }

    /// Returns the tool slots from an index on, including empty ones.
    pub fn tools_from(&self, place: usize) -> &[Option<Arc<Entry>>] {
        self.tools.get(place..).unwrap_or_default()
    }

    /// Returns the number of tools.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there is no tool.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the tool at an index of the source catalog.
    pub(crate) fn tool(&self, place: usize) -> Option<&Arc<Entry>> {
        self.tools.get(place)?.as_ref()
    }

    /// Iterates over problems with names and titles.
    pub(crate) fn told(&self) -> impl Iterator<Item = &Problem> {
        self.told.values()
    }

    /// Applies the outcome of one claim. A merged source shared with another catalog is copied only
    /// if something changes.
    pub(crate) fn settle(this: &mut Arc<Self>, outcome: Outcome) {
        let Outcome { claim, tool, told } = outcome;
        let place = claim.place();
        let same = match (this.tool(place).filter(|_| claim.is_tool()), &tool) {
            (None, None) => true,
            // An entry under its qualified name is created again each time.
            (Some(old), Some(new)) => {
                Arc::ptr_eq(old, new) || (new.name != new.key.name && old.is_same(new))
            }
            _ => false,
        };
        if same && this.told.get(&claim) == told.as_ref() {
            return;
        }
        let part = Arc::make_mut(this);
        if let Some(at) = part.tools.get_mut(place).filter(|_| claim.is_tool()) {
            part.len = part.len + usize::from(tool.is_some()) - usize::from(at.is_some());
            *at = tool;
        }
        match told {
            Some(told) => part.told.insert(claim, told),
            None => part.told.remove(&claim),
        };
    }
}
