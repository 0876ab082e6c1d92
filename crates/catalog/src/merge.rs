//! The catalog: all source catalogs merged in the operator's order.

use std::collections::HashSet;
use std::hash::BuildHasher as _;
use std::sync::Arc;

use tool::{Hashing, Map, Problem, SourceName, ToolKey, ToolName};

use crate::claim::{Claim, Taken, alone, claims, class, settle};
use crate::entry::Entry;
use crate::part::{Outcome, Part};
use crate::shards::Shards;
use crate::shelf::Shelf;
use tool::confusables::{look, looks};

/// All current items. Immutable and versioned; a call keeps the catalog that it started with.
/// Unchanged parts are shared with the previous catalog.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// Version; grows with every change.
    pub number: u64,
    /// Sources in the operator's order. A source keeps its slot while it exists; a removed one
    /// leaves it empty.
    parts: Vec<Option<Arc<Part>>>,
    len: usize,
    slots: Arc<Map<SourceName, usize>>,
    /// Positions of tools by the hash of their names.
    names: Shards<At>,
    /// Claims of the source catalogs, by class of confusable names.
    claims: Shards<Claim>,
    /// Positions by alias, if no tool has the alias as its own name.
    aliases: Map<String, At>,
    hashing: Hashing,
}

/// Position of a tool in a catalog: slot of its source, and index in that source catalog. Ordered
/// like the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct At {
    slot: u32,
    place: u32,
}

impl At {
    fn of(slot: usize, place: usize) -> Self {
        let number = |number| u32::try_from(number).unwrap_or(u32::MAX);
        Self { slot: number(slot), place: number(place) }
    }

    /// Returns the slot of its source, an index of [`Catalog::parts`].
    pub fn slot(self) -> usize {
        usize::try_from(self.slot).unwrap_or_default()
    }

    /// Returns the index in its source catalog.
    pub fn place(self) -> usize {
        usize::try_from(self.place).unwrap_or_default()
    }
}

/// Maximum number of empty slots beyond the number of sources.
const HOLES: usize = 16;

impl Catalog {
    /// Merges source catalogs in the operator's order. If two sources offer the same name or
    /// confusable names, the first keeps it, and the other's tool is listed by its qualified name,
    /// `SOURCE.NAME`. Each source has one catalog.
    pub fn merge(number: u64, shelves: Vec<Arc<Shelf>>) -> Self {
        Self::default().next(number, shelves)
    }

    /// Merges incrementally: the cost depends on the changed source catalogs and the tools whose
    /// names conflict with theirs. If the order of sources changes, everything is merged again.
    #[must_use]
    pub fn next(&self, number: u64, shelves: Vec<Arc<Shelf>>) -> Self {
        if let Some(slots) = self.placed(&shelves) {
            return self.changed(number, slots);
        }
        let none = Self { hashing: self.hashing.clone(), ..Self::default() };
        none.changed(number, shelves.into_iter().map(Some).collect())
    }

    /// Assigns source catalogs to slots; `None` if their order changed.
    fn placed(&self, shelves: &[Arc<Shelf>]) -> Option<Vec<Option<Arc<Shelf>>>> {
        let mut slots = vec![None; self.parts.len()];
        let mut free = 0;
        for shelf in shelves {
            let slot = self.slots.get(&shelf.source).copied().unwrap_or(slots.len());
            if slot < free {
                return None;
            }
            free = slot + 1;
            slots.resize(slots.len().max(free), None);
            *slots.get_mut(slot)? = Some(Arc::clone(shelf));
        }
        (slots.len() <= 2 * shelves.len() + HOLES).then_some(slots)
    }

    fn changed(&self, number: u64, slots: Vec<Option<Arc<Shelf>>>) -> Self {
        let (parts, slot_of) = (self.parts.clone(), Arc::clone(&self.slots));
        let hashing = self.hashing.clone();
        let mut next = Self { number, parts, slots: slot_of, hashing, ..Self::default() };
        next.parts.resize(slots.len(), None);
        let (mut gone, mut come, mut other) = (Vec::new(), Vec::new(), false);
        for (slot, (part, shelf)) in next.parts.iter_mut().zip(slots).enumerate() {
            let (old, new) = (part.as_ref().map(|part| part.shelf()), shelf.as_ref());
            if old.map(Arc::as_ptr) == new.map(Arc::as_ptr) {
                continue;
            }
            other |= old.map(|old| &old.source) != new.map(|new| &new.source);
            let of = |shelf| claims(&self.hashing, slot, shelf);
            gone.extend(old.into_iter().flat_map(|old| of(old)));
            come.extend(new.into_iter().flat_map(|new| of(new)));
            *part = shelf.map(|shelf| Arc::new(Part::new(shelf)));
        }
        let mut classes: HashSet<u64, Hashing> =
            gone.iter().chain(&come).map(|(class, _)| *class).collect();
        classes.extend(gone.iter().flat_map(|(_, claim)| self.unqualified(*claim)));
        classes.extend(come.iter().flat_map(|(_, claim)| next.unqualified(*claim)));
        next.claims = self.claims.changed(gone, come);
        next.settle(self, classes);
        next.len = next.parts.iter().flatten().map(|part| part.len()).sum();
        if other {
            let parts = next.parts.iter().enumerate().rev();
            let named = parts
                .filter_map(|(slot, part)| Some((part.as_ref()?.shelf().source.clone(), slot)));
            next.slots = Arc::new(named.collect());
        }
        next.aliases = next.second_names();
        next
    }

    /// Resolves the names of the classes that changed since `before`.
    fn settle(&mut self, before: &Self, classes: HashSet<u64, Hashing>) {
        let (mut gone, mut come) = (Vec::new(), Vec::new());
        for class in classes {
            let old = before.claims.get(class).filter(|claim| claim.is_tool());
            gone.extend(old.filter_map(|claim| before.named(claim)));
            let mut claims = self.claims.get(class);
            let first = claims.next();
            let only = first.filter(|_| claims.next().is_none());
            let shelf = |claim: Claim| self.part(claim.slot()).map(|part| part.shelf().as_ref());
            let outcomes = match only.and_then(|claim| Some(alone(claim, shelf(claim)?))) {
                Some(outcome) => vec![outcome],
                None => self.outcomes(class).1,
            };
            for outcome in outcomes {
                let claim = outcome.claim;
                if let Some(Some(part)) = self.parts.get_mut(claim.slot()) {
                    Part::settle(part, outcome);
                }
                if claim.is_tool() {
                    come.extend(self.named(claim));
                }
            }
        }
        self.names = before.names.changed(gone, come);
    }

    fn outcomes(&self, class: u64) -> (Taken<'_>, Vec<Outcome>) {
        let part = |slot| self.parts.get(slot).and_then(Option::as_deref);
        let shelf = |slot| part(slot).map(|part: &Part| part.shelf().as_ref());
        settle(self.claims.get(class).collect(), shelf, |name| self.is_unclaimed(name))
    }

    /// Returns true if no tool has this as its own name, or one that looks like it.
    fn is_unclaimed(&self, name: &ToolName) -> bool {
        let mut claims = self.claims.get(class(&self.hashing, &look(name.as_str())));
        !claims.any(|claim| {
            let own = self.part(claim.slot()).and_then(|part| claim.own_name(part.shelf()));
            own.is_some_and(|own| looks(own).any(|look| looks(name.as_str()).any(|it| it == look)))
        })
    }

    /// Returns the classes of the names that a qualified-looking name qualifies. Adding or removing
    /// such a tool decides whether the loser of such a name can use this one.
    fn unqualified(&self, claim: Claim) -> impl Iterator<Item = u64> {
        let part = self.part(claim.slot());
        let name = part.and_then(|part| claim.own_name(part.shelf())).unwrap_or_default();
        halves(name).map(|(_, own)| class(&self.hashing, &look(own)))
    }

    /// Returns the position of a claim's tool with the hash of its name.
    fn named(&self, claim: Claim) -> Option<(u64, At)> {
        let at = At::of(claim.slot(), claim.place());
        Some((self.hashing.hash_one(self.at(at)?.name.as_str()), at))
    }

    /// Resolves all aliases again; there are few.
    fn second_names(&self) -> Map<String, At> {
        let mut aliases = Map::<String, At>::default();
        let shelves = self.shelves().filter(|shelf| !shelf.aliases.is_empty());
        for (alias, name) in shelves.flat_map(|shelf| &shelf.aliases) {
            let Some((at, _)) = self.listed(name.as_str()) else { continue };
            // An alias that looks like another tool's name would be a disguise.
            let (taken, _) = self.outcomes(class(&self.hashing, &look(alias.as_str())));
            if taken.is_free(alias.as_str()) {
                aliases.entry(alias.to_string()).or_insert(at);
            }
        }
        aliases
    }

    /// Finds a tool and its position by its listed name, by an alias, or by its qualified name,
    /// `SOURCE.NAME`.
    pub fn find(&self, name: &str) -> Option<(At, &Arc<Entry>)> {
        let second = || {
            let at = *self.aliases.get(name)?;
            self.at(at).map(|entry| (at, entry))
        };
        self.listed(name)
            .or_else(second)
            .or_else(|| halves(name).find_map(|(source, own)| self.find_of(source, own)))
    }

    /// Finds a tool by its source and its own name there, whatever name it is listed by.
    pub fn find_of(&self, source: &str, own: &str) -> Option<(At, &Arc<Entry>)> {
        let slot = self.slot(source)?;
        let is = |entry: &Arc<Entry>| {
            entry.key.name.as_str() == own && entry.key.source.as_str() == source
        };
        let found = self.listed(own).filter(|(at, entry)| at.slot() == slot && is(entry));
        found.or_else(|| self.listed(&format!("{source}.{own}")).filter(|(_, entry)| is(entry)))
    }

    /// Finds a tool by its key.
    pub fn find_key(&self, key: &ToolKey) -> Option<(At, &Arc<Entry>)> {
        let found = self.find_of(key.source.as_str(), key.name.as_str())?;
        (found.1.key == *key).then_some(found)
    }

    fn listed(&self, name: &str) -> Option<(At, &Arc<Entry>)> {
        let mut found = self.names.get(self.hashing.hash_one(name));
        found.find_map(|at| {
            let entry = self.at(at).filter(|entry| entry.name.as_str() == name)?;
            Some((at, entry))
        })
    }

    fn at(&self, at: At) -> Option<&Arc<Entry>> {
        self.part(at.slot())?.tool(at.place())
    }

    /// Iterates over all tools: sources in the operator's order, tools in their source's.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<Entry>> + Clone {
        self.parts.iter().flatten().flat_map(|part| part.tools())
    }

    /// Returns the number of tools.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there is no tool.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the merged sources by slot; `None` for a removed source. A merged source that is
    /// shared between catalogs has the same tools at the same positions.
    pub fn parts(&self) -> &[Option<Arc<Part>>] {
        &self.parts
    }

    fn part(&self, slot: usize) -> Option<&Arc<Part>> {
        self.parts.get(slot)?.as_ref()
    }

    /// Returns the slot of a source.
    pub fn slot(&self, source: &str) -> Option<usize> {
        self.slots.get(source).copied()
    }

    fn of(&self, source: &str) -> Option<&Arc<Part>> {
        self.part(self.slot(source)?)
    }

    /// Returns the catalog of one source.
    pub fn shelf(&self, source: &str) -> Option<&Arc<Shelf>> {
        self.of(source).map(|part| part.shelf())
    }

    /// Finds an MCP method of one source by its name of [`tool::METHODS`].
    pub fn method(&self, source: &str, name: &str) -> Option<&Arc<Entry>> {
        self.shelf(source)?.methods.iter().find(|entry| entry.key.name.as_str() == name)
    }

    /// Iterates over the source catalogs in the operator's order.
    pub fn shelves(&self) -> impl Iterator<Item = &Arc<Shelf>> + Clone {
        self.parts.iter().flatten().map(|part| part.shelf())
    }

    /// Iterates over the problems of one source: its own, and the names it lost.
    pub fn problems<'a>(
        &'a self,
        source: &SourceName,
    ) -> impl Iterator<Item = &'a Problem> + use<'a> {
        let part = self.of(source.as_str());
        part.into_iter().flat_map(|part| part.shelf().problems.iter().chain(part.told()))
    }
}

/// Splits a qualified name into source and own name at each dot; either may contain dots.
fn halves(name: &str) -> impl Iterator<Item = (&str, &str)> {
    let dots = name.match_indices('.').map(|(dot, _)| dot);
    dots.filter_map(|dot| Some((name.get(..dot)?, name.get(dot + 1..)?)))
}

#[cfg(test)]
mod tests;
