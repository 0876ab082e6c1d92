//! All shelves as one catalog.

use std::sync::Arc;

use tool::{Map, Problem, SourceName};

use crate::entry::Entry;
use crate::shelf::Shelf;

/// All items now. Immutable and numbered; a call holds on to the one it began with.
#[derive(Debug, Default)]
pub struct Catalog {
    /// Grows with every change.
    pub number: u64,
    shelves: Vec<Arc<Shelf>>,
    tools: Vec<Arc<Entry>>,
    by_name: Map<String, usize>,
    refused: Vec<(SourceName, Problem)>,
}

impl Catalog {
    /// Merges shelves in the given order, which is the operator's: where two sources offer the same
    /// name, or names that look the same, the first keeps it and the other's is refused and shown.
    pub fn merge(number: u64, shelves: Vec<Arc<Shelf>>) -> Self {
        let mut catalog = Self { number, ..Self::default() };
        let mut looks: Map<String, usize> = Map::default();
        for shelf in &shelves {
            for entry in &shelf.tools {
                let look = skeleton(entry.key.name.as_str());
                let taken = looks.get(&look).and_then(|&at| catalog.tools.get(at));
                let other = taken.filter(|first| first.key.source != entry.key.source);
                if let Some(first) = other {
                    let problem = conflict(entry, first);
                    catalog.refused.push((shelf.source.clone(), problem));
                    continue;
                }
                looks.entry(look).or_insert(catalog.tools.len());
                catalog.by_name.insert(entry.key.name.to_string(), catalog.tools.len());
                catalog.tools.push(Arc::clone(entry));
            }
        }
        catalog.shelves = shelves;
        catalog
    }

    /// A tool and its place in the catalog.
    pub fn find(&self, name: &str) -> Option<(usize, &Arc<Entry>)> {
        let at = *self.by_name.get(name)?;
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

/// What a name looks like. Names are ASCII, so that case and two pairs of digits are all there is.
fn skeleton(name: &str) -> String {
    let look = |c: char| match c.to_ascii_lowercase() {
        '0' => 'o',
        '1' => 'l',
        other => other,
    };
    name.chars().map(look).collect()
}

#[cfg(test)]
mod tests;
