//! All shelves as one catalog.

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

/// All items now. Immutable and numbered; a call holds on to the one it began with. What did not change
/// it shares with the catalog before it.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// Grows with every change.
    pub number: u64,
    /// In the operator's order. A source keeps its slot while it is there; one that goes leaves it empty.
    parts: Vec<Option<Arc<Part>>>,
    len: usize,
    slots: Arc<Map<SourceName, usize>>,
    /// Where the tools stand, by their names.
    names: Shards<At>,
    /// What the shelves claim, by classes of names that may look alike.
    claims: Shards<Claim>,
    /// Second names, where no tool has them as its own.
    aliases: Map<String, At>,
    hashing: Hashing,
}

/// A tool's place in a catalog: its source's slot, and its place on that shelf. They are in the
/// catalog's order.
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

    /// Of its source, among [`Catalog::parts`].
    pub fn slot(self) -> usize {
        usize::try_from(self.slot).unwrap_or_default()
    }

    /// On its source's shelf.
    pub fn place(self) -> usize {
        usize::try_from(self.place).unwrap_or_default()
    }
}

/// Empty slots there may be beside as many as there are shelves.
const HOLES: usize = 16;

impl Catalog {
    /// Merges shelves in the given order, which is the operator's: where two sources offer the same
    /// name, or names that look the same, the first keeps it, and the other's tool is listed by its qualified
    /// name, `SOURCE.NAME`, which is shown. There is one shelf a source.
    pub fn merge(number: u64, shelves: Vec<Arc<Shelf>>) -> Self {
        Self::default().next(number, shelves)
    }

    /// The same, made of this one: what it takes goes by the shelves that are others, and by the tools
    /// whose names have to do with theirs. Where sources change places all is merged anew.
    #[must_use]
    pub fn next(&self, number: u64, shelves: Vec<Arc<Shelf>>) -> Self {
        if let Some(slots) = self.placed(&shelves) {
            return self.changed(number, slots);
        }
        let none = Self { hashing: self.hashing.clone(), ..Self::default() };
        none.changed(number, shelves.into_iter().map(Some).collect())
    }

    /// The shelves by slots; nothing where they are in another order than before.
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

    /// Settles who has which of the names of these classes, which changed since `before`.
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

    /// Whether no tool has this as its own name, or one that looks like it.
    fn is_unclaimed(&self, name: &ToolName) -> bool {
        let mut claims = self.claims.get(class(&self.hashing, &look(name.as_str())));
        !claims.any(|claim| {
            let own = self.part(claim.slot()).and_then(|part| claim.own_name(part.shelf()));
            own.is_some_and(|own| looks(own).any(|look| looks(name.as_str()).any(|it| it == look)))
        })
    }

    /// Where a tool's own name has the form of qualified ones, or looks like one: the classes of the names that
    /// these qualify. Whoever lost one of those may be called by this name or not, as the tool goes or comes.
    fn unqualified(&self, claim: Claim) -> impl Iterator<Item = u64> {
        let part = self.part(claim.slot());
        let name = part.and_then(|part| claim.own_name(part.shelf())).unwrap_or_default();
        halves(name).map(|(_, own)| class(&self.hashing, &look(own)))
    }

    /// The place of a tool that is called by some name, under that name's hash.
    fn named(&self, claim: Claim) -> Option<(u64, At)> {
        let at = At::of(claim.slot(), claim.place());
        Some((self.hashing.hash_one(self.at(at)?.name.as_str()), at))
    }

    /// They are few: all are looked at again.
    fn second_names(&self) -> Map<String, At> {
        let mut aliases = Map::<String, At>::default();
        let shelves = self.shelves().filter(|shelf| !shelf.aliases.is_empty());
        for (alias, name) in shelves.flat_map(|shelf| &shelf.aliases) {
            let Some((at, _)) = self.listed(name.as_str()) else { continue };
            // A name that looks like another's would be a disguise, as it is for tools.
            let (taken, _) = self.outcomes(class(&self.hashing, &look(alias.as_str())));
            if taken.is_free(alias.as_str()) {
                aliases.entry(alias.to_string()).or_insert(at);
            }
        }
        aliases
    }

    /// A tool and its place in the catalog, by the name it is listed by, by a second one that leads to it, or
    /// by its qualified name, `SOURCE.NAME`.
    pub fn find(&self, name: &str) -> Option<(At, &Arc<Entry>)> {
        let second = || {
            let at = *self.aliases.get(name)?;
            self.at(at).map(|entry| (at, entry))
        };
        self.listed(name)
            .or_else(second)
            .or_else(|| halves(name).find_map(|(source, own)| self.find_of(source, own)))
    }

    /// A tool by its source and its own name there, whatever it is listed by.
    pub fn find_of(&self, source: &str, own: &str) -> Option<(At, &Arc<Entry>)> {
        let slot = self.slot(source)?;
        let is = |entry: &Arc<Entry>| {
            entry.key.name.as_str() == own && entry.key.source.as_str() == source
        };
        let found = self.listed(own).filter(|(at, entry)| at.slot() == slot && is(entry));
        found.or_else(|| self.listed(&format!("{source}.{own}")).filter(|(_, entry)| is(entry)))
    }

    /// A tool by its identity.
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

    /// All tools: sources in the operator's order, tools in their source's.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<Entry>> + Clone {
        self.parts.iter().flatten().flat_map(|part| part.tools())
    }

    /// How many tools there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The parts by slots; nothing where a source has gone. A part that is the same as in another catalog
    /// has the same tools in the same places.
    pub fn parts(&self) -> &[Option<Arc<Part>>] {
        &self.parts
    }

    fn part(&self, slot: usize) -> Option<&Arc<Part>> {
        self.parts.get(slot)?.as_ref()
    }

    /// The slot of a source.
    pub fn slot(&self, source: &str) -> Option<usize> {
        self.slots.get(source).copied()
    }

    fn of(&self, source: &str) -> Option<&Arc<Part>> {
        self.part(self.slot(source)?)
    }

    /// One source's shelf.
    pub fn shelf(&self, source: &str) -> Option<&Arc<Shelf>> {
        self.of(source).map(|part| part.shelf())
    }

    /// A method of one source, by its name of [`tool::METHODS`].
    pub fn method(&self, source: &str, name: &str) -> Option<&Arc<Entry>> {
        self.shelf(source)?.methods.iter().find(|entry| entry.key.name.as_str() == name)
    }

    /// The shelves, in the operator's order.
    pub fn shelves(&self) -> impl Iterator<Item = &Arc<Shelf>> + Clone {
        self.parts.iter().flatten().map(|part| part.shelf())
    }

    /// What is wrong with one source: its own problems, and the names it could not have.
    pub fn problems<'a>(
        &'a self,
        source: &SourceName,
    ) -> impl Iterator<Item = &'a Problem> + use<'a> {
        let part = self.of(source.as_str());
        part.into_iter().flat_map(|part| part.shelf().problems.iter().chain(part.told()))
    }
}

/// What a name may be the qualified one of: a source, and a tool's own name there. Either may have dots.
fn halves(name: &str) -> impl Iterator<Item = (&str, &str)> {
    let dots = name.match_indices('.').map(|(dot, _)| dot);
    dots.filter_map(|dot| Some((name.get(..dot)?, name.get(dot + 1..)?)))
}

#[cfg(test)]
mod tests;
