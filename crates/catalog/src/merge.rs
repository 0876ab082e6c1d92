//! All shelves as one catalog.

use std::collections::BTreeMap;
use std::sync::Arc;

use tool::{Executor, Map, Problem, SourceName};

use crate::entry::Entry;
use crate::looks::{look, looks};
use crate::shelf::Shelf;

/// All items now. Immutable and numbered; a call holds on to the one it began with.
#[derive(Debug, Default)]
pub struct Catalog {
    /// Grows with every change.
    pub number: u64,
    shelves: Vec<Arc<Shelf>>,
    tools: Vec<Arc<Entry>>,
    by_name: Map<String, usize>,
    /// Second names, where no tool has them as its own.
    aliases: Map<String, usize>,
    refused: Vec<(SourceName, Problem)>,
}

impl Catalog {
    /// Merges shelves in the given order, which is the operator's: where two sources offer the same
    /// name, or names that look the same, the first keeps it and the other's is refused and shown.
    pub fn merge(number: u64, shelves: Vec<Arc<Shelf>>) -> Self {
        let mut catalog = Self { number, ..Self::default() };
        let mut taken = Taken::default();
        let mut elsewhere = Elsewhere::new();
        for shelf in &shelves {
            for entry in &shelf.tools {
                if let Some(at) = catalog.same(entry) {
                    elsewhere.entry(at).or_default().push(Arc::clone(&entry.executor));
                    continue;
                }
                match taken.take(entry) {
                    Ok(()) => {
                        catalog.by_name.insert(entry.key.name.to_string(), catalog.tools.len());
                        catalog.tools.push(Arc::clone(entry));
                    }
                    Err(problem) => catalog.refused.push((shelf.source.clone(), problem)),
                }
            }
            for held in shelf.held.iter().filter(|held| !held.method) {
                if let Err(problem) = taken.take(&held.entry) {
                    catalog.refused.push((shelf.source.clone(), problem));
                }
            }
        }
        for shelf in &shelves {
            let told = shelf.tools.iter().filter_map(|entry| taken.title(entry));
            catalog.refused.extend(told.map(|problem| (shelf.source.clone(), problem)));
        }
        for (alias, name) in shelves.iter().flat_map(|shelf| &shelf.aliases) {
            // A name that looks like another's would be a disguise, as it is for tools.
            let free =
                !catalog.aliases.contains_key(alias.as_str()) && taken.is_free(alias.as_str());
            if let Some(at) = catalog.by_name.get(name.as_str()).filter(|_| free) {
                catalog.aliases.insert(alias.to_string(), *at);
            }
        }
        catalog.shelves = shelves;
        catalog.place(elsewhere);
        catalog
    }

    /// The same tool of another source, where both run it in a place: one tool in several places.
    fn same(&self, entry: &Entry) -> Option<usize> {
        if entry.executor.places().is_empty() {
            return None;
        }
        let (at, first) = self.find(entry.key.name.as_str())?;
        let same = first.key.source != entry.key.source && first.definition == entry.definition;
        (same && !first.executor.places().is_empty()).then_some(at)
    }

    fn place(&mut self, elsewhere: Elsewhere) {
        for (at, others) in elsewhere {
            let Some(entry) = self.tools.get_mut(at) else { continue };
            if let Some(executor) = entry.executor.beside(&others) {
                *entry = Arc::new(entry.run_by(executor));
            }
        }
    }

    /// A tool and its place in the catalog, by its name or by a second one that leads to it.
    pub fn find(&self, name: &str) -> Option<(usize, &Arc<Entry>)> {
        let at = *self.by_name.get(name).or_else(|| self.aliases.get(name))?;
        self.tools.get(at).map(|entry| (at, entry))
    }

    /// All tools: sources in the operator's order, tools in their source's.
    pub fn tools(&self) -> &[Arc<Entry>] {
        &self.tools
    }

    /// One source's shelf.
    pub fn shelf(&self, source: &str) -> Option<&Arc<Shelf>> {
        self.shelves.iter().find(|shelf| shelf.source.as_str() == source)
    }

    /// A method of one source, by its name of [`tool::METHODS`].
    pub fn method(&self, source: &str, name: &str) -> Option<&Arc<Entry>> {
        self.shelf(source)?.methods.iter().find(|entry| entry.key.name.as_str() == name)
    }

    /// The shelves, in the operator's order.
    pub fn shelves(&self) -> &[Arc<Shelf>] {
        &self.shelves
    }

    /// What is wrong with one source: its own problems, and the names it could not have.
    pub fn problems<'a>(&'a self, source: &'a SourceName) -> impl Iterator<Item = &'a Problem> {
        let own = self.shelves.iter().filter(move |shelf| shelf.source == *source);
        let refused = self.refused.iter().filter(move |(of, _)| of == source);
        own.flat_map(|shelf| &shelf.problems).chain(refused.map(|(_, problem)| problem))
    }
}

/// What else runs a tool, by the tool's place in the catalog.
type Elsewhere = BTreeMap<usize, Vec<Arc<dyn Executor>>>;

fn conflict(entry: &Entry, first: &Entry) -> Problem {
    let (name, holder) = (&entry.key.name, &first.key);
    let message = if *name == holder.name {
        format!("the name `{name}` is already taken by source `{}`", holder.source)
    } else {
        format!("the name `{name}` looks like `{}` of source `{}`", holder.name, holder.source)
    };
    Problem::new(name.to_string(), message)
        .fix("rename one of the two, or put the source that should have it first")
}

/// Whose names are taken, by what they look like.
#[derive(Default)]
struct Taken<'a>(Map<String, &'a Arc<Entry>>);

impl<'a> Taken<'a> {
    /// Takes a tool's name, unless another source has one that looks like it. One that is held back
    /// has its name too: nobody comes into its place.
    fn take(&mut self, entry: &'a Arc<Entry>) -> Result<(), Problem> {
        let name = entry.key.name.as_str();
        let other = looks(name).find_map(|look| {
            self.0.get(&look).filter(|first| first.key.source != entry.key.source)
        });
        if let Some(first) = other {
            return Err(conflict(entry, first));
        }
        for look in looks(name) {
            self.0.entry(look).or_insert(entry);
        }
        Ok(())
    }

    /// Whether no tool has this name, or one that looks like it.
    fn is_free(&self, name: &str) -> bool {
        !looks(name).any(|look| self.0.contains_key(&look))
    }

    /// A title in other letters that reads as another source's tool. Plain titles may: "Search" is no
    /// disguise.
    fn title(&self, entry: &Entry) -> Option<Problem> {
        let title = entry.tool.title.as_deref().filter(|title| !title.is_ascii())?;
        let other = self.0.get(&look(title))?;
        (other.key.source != entry.key.source).then(|| {
            let (name, source) = (&other.key.name, &other.key.source);
            let told = format!("its title looks like the tool `{name}` of source `{source}`");
            Problem::new(entry.key.name.to_string(), told).fix("look at it: `toolkeep pin show`")
        })
    }
}

#[cfg(test)]
mod tests;
