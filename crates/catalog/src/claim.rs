//! Resolution of name conflicts between sources. Only names in the same class of confusable names
//! are compared.
//!
//! Names that look alike are in one class, so the result for a name depends on the claims of its
//! class. A tool that loses its name is called by its qualified one, `SOURCE.NAME`, unless another
//! tool has that as its own, which depends on the claims of that class.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use tool::{Executor, Hashing, Map, Problem, ToolName};

use crate::entry::Entry;
use crate::part::Outcome;
use crate::shelf::Shelf;
use tool::confusables::{look, looks};

/// Kinds of claims, in the order in which a source's problems are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A tool claims a name.
    Tool,
    /// A blocked tool claims a name.
    Held,
    /// A title with non-ASCII letters claims no name, but is checked against the names of other
    /// tools.
    Title,
}

/// A claim of one source catalog; the index is that in its list of this kind.
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

    /// Returns the claimed name; `None` for a title.
    pub(crate) fn own_name(self, shelf: &Shelf) -> Option<&str> {
        let entry = match self.kind {
            Kind::Tool => shelf.tools.get(self.place()),
            Kind::Held => shelf.held.get(self.place()).map(|held| &held.entry),
            Kind::Title => None,
        };
        entry.map(|entry| entry.key.name.as_str())
    }

    /// Returns the order of resolution: sources in the operator's order, titles after all names.
    fn turn(self) -> impl Ord {
        (self.kind == Kind::Title, self.slot, self.kind, self.place)
    }
}

/// Returns the class of a skeleton. The letters `i` and `l` count as one, so that both skeletons of
/// a name with a capital `I` fall into one class.
pub(crate) fn class(hashing: &Hashing, look: &str) -> u64 {
    hashing.hash_one(look.replace('i', "l"))
}

/// Returns all claims of the source catalog in this slot, with their classes.
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

/// Returns a title with non-ASCII letters. Plain titles such as "Search" are no disguise.
fn odd_title(entry: &Entry) -> Option<&str> {
    entry.tool.title.as_deref().filter(|title| !title.is_ascii())
}

/// Resolves the claims of one or more classes: the first keeps a name, and others get their
/// qualified name if it is free, and a problem. Returns the outcome of each claim.
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

/// Resolves a claim that is alone in its class, as nearly all are, and so always succeeds.
pub(crate) fn alone(claim: Claim, shelf: &Shelf) -> Outcome {
    let tool = shelf.tools.get(claim.place()).filter(|_| claim.is_tool());
    Outcome { claim, tool: tool.cloned(), told: None }
}

/// A tool that won its name, and further executors of the same tool.
struct Listed<'a> {
    /// Index of its outcome.
    at: usize,
    entry: &'a Arc<Entry>,
    elsewhere: Vec<Arc<dyn Executor>>,
}

impl Listed<'_> {
    /// Returns true if two sources offer the same definition and both run it on nodes: one tool on
    /// several nodes.
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

/// Claimed names by their skeletons.
#[derive(Default)]
pub(crate) struct Taken<'a>(Map<String, &'a Arc<Entry>>);

impl<'a> Taken<'a> {
    /// Claims a tool's name unless another source has one that looks like it. Blocked tools keep
    /// their names reserved too.
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

    /// Returns true if no tool has this name or one that looks like it.
    pub(crate) fn is_free(&self, name: &str) -> bool {
        !looks(name).any(|look| self.0.contains_key(&look))
    }

    /// Reports a title with non-ASCII letters that looks like another source's tool.
    fn title(&self, entry: &Entry) -> Option<Problem> {
        let other = self.0.get(&look(odd_title(entry)?))?;
        (other.key.source != entry.key.source).then(|| {
            let (name, source) = (&other.key.name, &other.key.source);
            let told = format!("its title looks like the tool `{name}` of source `{source}`");
            Problem::new(entry.key.name.to_string(), told).fix("look at it: `toolkeep pin show`")
        })
    }
}

/// Reports a name conflict, and the name that the tool has instead.
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
