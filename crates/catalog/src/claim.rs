//! Who has which name: the part of merging that looks at names, and at no more of them than it must.
//!
//! Names have to do with each other where they look alike, and what looks alike is in one class. So what
//! became of a name depends on the claims of its class; a tool that cannot have its name is called by its
//! qualified one, `SOURCE.NAME`, unless a tool has that as its own, which depends on the claims of that class.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use tool::{Executor, Hashing, Map, Problem, ToolName};

use crate::entry::Entry;
use crate::part::Outcome;
use crate::shelf::Shelf;
use tool::confusables::{look, looks};

/// What is claimed. The order is that in which a source's problems are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A name, by a tool.
    Tool,
    /// A name, by a tool that is held back.
    Held,
    /// Nothing: a title in other letters is looked at, whether it reads as a tool.
    Title,
}

/// A claim of one shelf; the place is that on the shelf's list of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Claim {
    kind: Kind,
    slot: u32,
    place: u32,
}

impl Claim {
    pub(crate) fn slot(self) -> usize {
        usize::try_from(self.slot).unwrap_or_default()
    }

    pub(crate) fn place(self) -> usize {
        usize::try_from(self.place).unwrap_or_default()
    }

    pub(crate) fn is_tool(self) -> bool {
        self.kind == Kind::Tool
    }

    /// The name that is claimed; nothing where it is a title.
    pub(crate) fn own_name(self, shelf: &Shelf) -> Option<&str> {
        let entry = match self.kind {
            Kind::Tool => shelf.tools.get(self.place()),
            Kind::Held => shelf.held.get(self.place()).map(|held| &held.entry),
            Kind::Title => None,
        };
        entry.map(|entry| entry.key.name.as_str())
    }

    /// The order in which claims are looked at: the operator's of the sources, and titles when all names
    /// are settled.
    fn turn(self) -> impl Ord {
        (self.kind == Kind::Title, self.slot, self.kind, self.place)
    }
}

/// The class of what looks like this. The two looks of a name with a capital `I` differ where one has an
/// `i` and the other an `l`, so that those are one letter here.
pub(crate) fn class(hashing: &Hashing, look: &str) -> u64 {
    hashing.hash_one(look.replace('i', "l"))
}

/// All claims of a shelf that stands in this slot, with their classes.
pub(crate) fn claims<'a>(
    hashing: &'a Hashing,
    slot: usize,
    shelf: &'a Shelf,
) -> impl Iterator<Item = (u64, Claim)> {
    let claim = move |kind, place| {
        let number = |number| u32::try_from(number).unwrap_or(u32::MAX);
        Claim { kind, slot: number(slot), place: number(place) }
    };
    let of = move |entry: &Entry| class(hashing, &look(entry.key.name.as_str()));
    let tools = shelf.tools.iter().enumerate();
    let titles = tools.clone().filter_map(move |(place, entry)| {
        Some((class(hashing, &look(odd_title(entry)?)), claim(Kind::Title, place)))
    });
    let tools = tools.map(move |(place, entry)| (of(entry), claim(Kind::Tool, place)));
    let held = shelf.held.iter().enumerate().filter(|(_, held)| !held.method);
    let held = held.map(move |(place, held)| (of(&held.entry), claim(Kind::Held, place)));
    tools.chain(held).chain(titles)
}

/// A title in other letters. Plain ones may read as another's tool: "Search" is no disguise.
fn odd_title(entry: &Entry) -> Option<&str> {
    entry.tool.title.as_deref().filter(|title| !title.is_ascii())
}

/// Settles the claims of one class, or of several: the first keeps a name, and the other has its qualified
/// one where that is free, and is told. Gives what became of each claim.
pub(crate) fn settle<'a>(
    mut claims: Vec<Claim>,
    shelf: impl Fn(usize) -> Option<&'a Shelf>,
    is_free: impl Fn(&ToolName) -> bool,
) -> (Taken<'a>, Vec<Outcome>) {
    claims.sort_unstable_by_key(|claim| claim.turn());
    let (mut taken, mut outcomes) = (Taken::default(), Vec::with_capacity(claims.len()));
    let mut first: Map<&str, Listed<'a>> = Map::default();
    for claim in claims {
        let Some(shelf) = shelf(claim.slot()) else { continue };
        let entry = match claim.kind {
            Kind::Tool | Kind::Title => shelf.tools.get(claim.place()),
            Kind::Held => shelf.held.get(claim.place()).map(|held| &held.entry),
        };
        let Some(entry) = entry else { continue };
        let mut tool = None;
        let told = match claim.kind {
            Kind::Title => taken.title(entry),
            Kind::Held => taken.take(entry).err().map(|other| conflict(entry, other, None)),
            Kind::Tool => {
                let name = entry.key.name.as_str();
                if let Some(first) = first.get_mut(name).filter(|first| first.is_same(entry)) {
                    first.elsewhere.push(Arc::clone(&entry.executor));
                    None
                } else {
                    match taken.take(entry) {
                        Ok(()) => {
                            let at = outcomes.len();
                            first.insert(name, Listed { at, entry, elsewhere: Vec::new() });
                            None
                        }
                        Err(other) => {
                            let qualified = entry.key.qualified().ok().filter(|name| is_free(name));
                            let told = conflict(entry, other, qualified.as_ref());
                            tool = qualified.map(|name| Arc::new(entry.called(name)));
                            Some(told)
                        }
                    }
                }
            }
        };
        outcomes.push(Outcome { claim, tool, told });
    }
    for listed in first.into_values() {
        if let Some(outcome) = outcomes.get_mut(listed.at) {
            outcome.tool = Some(listed.entry());
        }
    }
    (taken, outcomes)
}

/// What becomes of a claim that is alone in its class, as nearly all are: nobody is in its way.
pub(crate) fn alone(claim: Claim, shelf: &Shelf) -> Outcome {
    let tool = shelf.tools.get(claim.place()).filter(|_| claim.is_tool());
    Outcome { claim, tool: tool.cloned(), told: None }
}

/// A tool that has its name, and what else runs it.
struct Listed<'a> {
    /// Which of the outcomes is its.
    at: usize,
    entry: &'a Arc<Entry>,
    elsewhere: Vec<Arc<dyn Executor>>,
}

impl Listed<'_> {
    /// The same tool of another source, where both run it in a place: one tool in several places.
    fn is_same(&self, other: &Entry) -> bool {
        let placed = |entry: &Entry| !entry.executor.places().is_empty();
        self.entry.key.source != other.key.source
            && self.entry.definition == other.definition
            && placed(other)
            && placed(self.entry)
    }

    fn entry(&self) -> Arc<Entry> {
        let all = (!self.elsewhere.is_empty())
            .then(|| self.entry.executor.beside(&self.elsewhere))
            .flatten();
        all.map_or_else(|| Arc::clone(self.entry), |all| Arc::new(self.entry.run_by(all)))
    }
}

/// Whose names are taken, by what they look like.
#[derive(Default)]
pub(crate) struct Taken<'a>(Map<String, &'a Arc<Entry>>);

impl<'a> Taken<'a> {
    /// Takes a tool's name, unless another source has one that looks like it. One that is held back
    /// has its name too: nobody comes into its place.
    fn take(&mut self, entry: &'a Arc<Entry>) -> Result<(), &'a Entry> {
        let name = entry.key.name.as_str();
        let other = looks(name).find_map(|look| {
            self.0.get(&look).filter(|first| first.key.source != entry.key.source)
        });
        if let Some(first) = other {
            return Err(first);
        }
        for look in looks(name) {
            self.0.entry(look).or_insert(entry);
        }
        Ok(())
    }

    /// Whether no tool has this name, or one that looks like it.
    pub(crate) fn is_free(&self, name: &str) -> bool {
        !looks(name).any(|look| self.0.contains_key(&look))
    }

    /// A title in other letters that reads as another source's tool.
    fn title(&self, entry: &Entry) -> Option<Problem> {
        let other = self.0.get(&look(odd_title(entry)?))?;
        (other.key.source != entry.key.source).then(|| {
            let (name, source) = (&other.key.name, &other.key.source);
            let told = format!("its title looks like the tool `{name}` of source `{source}`");
            Problem::new(entry.key.name.to_string(), told).fix("look at it: `toolkeep pin show`")
        })
    }
}

/// A name that another source has, or one that looks like it, and the name that the tool has instead.
fn conflict(entry: &Entry, first: &Entry, instead: Option<&ToolName>) -> Problem {
    let (name, holder) = (&entry.key.name, &first.key);
    let message = if *name == holder.name {
        format!("the name `{name}` is already taken by source `{}`", holder.source)
    } else {
        format!("the name `{name}` looks like `{}` of source `{}`", holder.name, holder.source)
    };
    let problem = Problem::new(name.to_string(), message);
    match instead {
        Some(instead) => problem.fix(format!(
            "call this one `{instead}`, or list its source first to give it the short name"
        )),
        None => problem.fix("rename one of the two"),
    }
}
