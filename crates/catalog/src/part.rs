//! One source's part of a catalog.

use std::collections::BTreeMap;
use std::sync::Arc;

use tool::Problem;

use crate::claim::Claim;
use crate::entry::Entry;
use crate::shelf::Shelf;

/// A shelf, and what of it is to be had in its catalog. One catalog has it from the other as long as
/// nothing of it changes.
#[derive(Debug, Clone)]
pub struct Part {
    shelf: Arc<Shelf>,
    /// By their places on the shelf; nothing where another source has both of the names it could have.
    tools: Vec<Option<Arc<Entry>>>,
    len: usize,
    /// The names it could not have, and titles that look like another's tool.
    told: BTreeMap<Claim, Problem>,
}

/// What becomes of a claim.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) claim: Claim,
    /// The tool, where it has its name and can be called.
    pub(crate) tool: Option<Arc<Entry>>,
    pub(crate) told: Option<Problem>,
}

impl Part {
    /// Before anything is known of its claims.
    pub(crate) fn new(shelf: Arc<Shelf>) -> Self {
        let tools = vec![None; shelf.tools.len()];
        Self { shelf, tools, len: 0, told: BTreeMap::new() }
    }

    /// The shelf it is of.
    pub fn shelf(&self) -> &Arc<Shelf> {
        &self.shelf
    }

    /// Its tools, in their source's order.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<Entry>> + Clone {
        self.tools.iter().flatten()
    }

    /// The same with the places that have none, from one on.
    pub fn tools_from(&self, place: usize) -> &[Option<Arc<Entry>>] {
        self.tools.get(place..).unwrap_or_default()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The tool at a place of the shelf.
    pub(crate) fn tool(&self, place: usize) -> Option<&Arc<Entry>> {
        self.tools.get(place)?.as_ref()
    }

    /// What is wrong with its names and titles.
    pub(crate) fn told(&self) -> impl Iterator<Item = &Problem> {
        self.told.values()
    }

    /// Takes over what became of one of its claims; a part that another catalog has too is left as it is,
    /// and stays shared where nothing changes.
    pub(crate) fn settle(this: &mut Arc<Self>, outcome: Outcome) {
        let Outcome { claim, tool, told } = outcome;
        let place = claim.place();
        let same = match (this.tool(place).filter(|_| claim.is_tool()), &tool) {
            (None, None) => true,
            // One under its qualified name is made anew each time.
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
