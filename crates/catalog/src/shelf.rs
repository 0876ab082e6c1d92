//! Offers of one source, compiled once per listing.

use std::collections::HashMap;
use std::sync::Arc;

use tool::source::SourceFault;
use tool::{
    Digest, Durability, Item, Json, Listing, Org, Problem, Prompt, Resource, Revision, SourceError,
    SourceName, ToolName, Trust, Wall,
};

use crate::beside::{Beside, Shown};
use crate::entry::Entry;

/// States of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The source was not listed yet.
    Starting,
    /// The last listing is current.
    Ok,
    /// The source is unavailable; its last listing stays active.
    Stale,
    /// The source is unavailable and was never listed.
    Failed(SourceFault),
}

impl State {
    /// Returns the word as it appears in responses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ok => "ok",
            Self::Stale => "stale",
            Self::Failed(_) => "failed",
        }
    }

    /// Returns the kind of failure.
    pub const fn fault(self) -> Option<SourceFault> {
        match self {
            Self::Failed(fault) => Some(fault),
            Self::Starting | Self::Ok | Self::Stale => None,
        }
    }
}

/// A tool or method that its pin blocks.
#[derive(Debug, Clone)]
pub struct Held {
    /// Entry of the tool.
    pub entry: Arc<Entry>,
    /// True if it is an MCP method.
    pub method: bool,
}

/// Catalog of one source. Immutable.
#[derive(Debug, Clone)]
pub struct Shelf {
    /// Name of the source.
    pub source: SourceName,
    /// `tool_file`, `module`, `mcp`, `builtin`, …
    pub kind: &'static str,
    /// Trust in the source.
    pub trust: Trust,
    /// Durability of its call records, if the operator sets it.
    pub durability: Option<Durability>,
    /// State of the source.
    pub state: State,
    /// Revision of its listing.
    pub revision: Revision,
    /// Tools in the source's order.
    pub tools: Vec<Arc<Entry>>,
    /// Prompts of the source.
    pub prompts: Vec<Prompt>,
    /// Resources and templates of the source.
    pub resources: Vec<Resource>,
    /// MCP methods that it answers besides tool calls.
    pub methods: Vec<Arc<Entry>>,
    /// Tools that pins block. They are neither listed nor callable, but keep their names reserved.
    pub held: Vec<Held>,
    /// Initialize result of the source, without blocked instructions.
    pub about: Option<Json>,
    /// All its prompts, resources and instructions, including blocked ones.
    pub beside: Vec<Arc<Beside>>,
    /// Initialize result including blocked instructions.
    said: Option<Json>,
    /// Problems of the source.
    pub problems: Vec<Problem>,
    /// Time since when the listing is stale.
    pub stale_since: Option<Wall>,
    /// Aliases of its tools, each with the tool's own name.
    pub aliases: Vec<(ToolName, ToolName)>,
    /// True if the operator trusts the MCP annotations of its tools.
    pub trusted_annotations: bool,
}

impl Shelf {
    /// Creates the catalog of a source that was not listed yet.
    pub fn starting(source: SourceName, kind: &'static str, trust: Trust) -> Self {
        Self {
            source,
            kind,
            trust,
            durability: None,
            state: State::Starting,
            revision: Revision::default(),
            tools: Vec::new(),
            prompts: Vec::new(),
            resources: Vec::new(),
            methods: Vec::new(),
            held: Vec::new(),
            about: None,
            beside: Vec::new(),
            said: None,
            problems: Vec::new(),
            stale_since: None,
            aliases: Vec::new(),
            trusted_annotations: false,
        }
    }

    /// Sets the operator's durability for its records.
    #[must_use]
    pub fn durable(mut self, durability: Option<Durability>) -> Self {
        self.durability = durability;
        self
    }

    /// Returns the catalog after a listing. An unchanged definition keeps its compiled entry,
    /// unless its executor changed.
    #[must_use]
    pub fn listed(&self, org: &Org, listing: Listing) -> Self {
        let trusted_annotations = listing.trusted_annotations;
        let Listing { revision, offers, problems, stale_since, about, aliases, .. } = listing;
        let state = if stale_since.is_some() { State::Stale } else { State::Ok };
        let empty = Self::starting(self.source.clone(), self.kind, self.trust);
        let durability = self.durability;
        let instructions = about.as_ref().and_then(Beside::instructions);
        let said = about.map(|about| about.definition_made_visible().unwrap_or(about));
        let empty = Self { trusted_annotations, ..empty };
        let mut next =
            Self { durability, state, revision, said, problems, stale_since, aliases, ..empty };
        next.beside.extend(instructions.map(Arc::new));
        let mut seen: HashMap<ToolName, Arc<Entry>> = HashMap::new();
        for offer in offers {
            let (tool, method) = match offer.item {
                Item::Tool(tool) => (tool, false),
                Item::Method(tool) => (tool, true),
                Item::Prompt(prompt) => {
                    next.beside.extend(Beside::prompt(prompt).map(Arc::new));
                    continue;
                }
                Item::Resource(resource) => {
                    next.beside.extend(Beside::resource(resource).map(Arc::new));
                    continue;
                }
            };
            let place = tool.name.to_string();
            match Entry::new(org.clone(), self.source.clone(), tool, offer.executor) {
                Ok(entry) if method => next.methods.push(Arc::new(entry.durable(durability))),
                Ok(entry) => next.shelve(Arc::new(entry.durable(durability)), &mut seen),
                Err(message) => next
                    .problems
                    .push(Problem::new(place, message).fix("mend the tool's schema at its source")),
            }
        }
        next.divide_beside(|_, _| true);
        next
    }

    /// Adds a tool. A repeated definition is ignored; another definition under the same name is a
    /// problem.
    fn shelve(&mut self, entry: Arc<Entry>, seen: &mut HashMap<ToolName, Arc<Entry>>) {
        let name = &entry.key.name;
        match seen.get(name) {
            None => {
                seen.insert(name.clone(), Arc::clone(&entry));
                self.tools.push(entry);
            }
            Some(first) if first.definition == entry.definition => {}
            Some(_) => self.problems.push(
                Problem::new(name.to_string(), format!("Tool {name} already registered"))
                    .fix("the first definition stays; rename or remove the second"),
            ),
        }
    }

    /// Returns true if `other` has the same offers, executors and state. Only their revisions may
    /// differ.
    pub fn is_same(&self, other: &Self) -> bool {
        let entries = |one: &[Arc<Entry>], two: &[Arc<Entry>]| {
            one.len() == two.len() && one.iter().zip(two).all(|(one, two)| one.is_same(two))
        };
        let held =
            |(one, two): (&Held, &Held)| one.method == two.method && one.entry.is_same(&two.entry);
        let beside = |(one, two): (&Arc<Beside>, &Arc<Beside>)| {
            one.pin == two.pin && one.definition == two.definition
        };
        let stands =
            |it: &Self| (it.trust, it.durability, it.state, it.stale_since, it.trusted_annotations);
        let says = |it: &Self| (it.about.clone(), it.said.clone());
        self.source == other.source
            && self.kind == other.kind
            && stands(self) == stands(other)
            && entries(&self.tools, &other.tools)
            && entries(&self.methods, &other.methods)
            && self.held.len() == other.held.len()
            && self.held.iter().zip(&other.held).all(held)
            && self.beside.len() == other.beside.len()
            && self.beside.iter().zip(&other.beside).all(beside)
            && (&self.prompts, &self.resources) == (&other.prompts, &other.resources)
            && (&self.problems, &self.aliases) == (&other.problems, &other.aliases)
            && says(self) == says(other)
    }

    /// Applies the pins: moves tools whose definition is not active to the blocked ones, and back.
    pub fn divide(&mut self, callable: impl Fn(&ToolName, Digest) -> bool) {
        self.divide_beside(&callable);
        let callable = |entry: &Entry| callable(&entry.key.name, entry.definition);
        let back = std::mem::take(&mut self.held);
        for Held { entry, method } in back {
            let list = if method { &mut self.methods } else { &mut self.tools };
            list.push(entry);
        }
        for (list, method) in [(&mut self.tools, false), (&mut self.methods, true)] {
            let out = list.extract_if(.., |entry| !callable(entry));
            self.held.extend(out.map(|entry| Held { entry, method }));
        }
    }

    fn divide_beside(&mut self, callable: impl Fn(&ToolName, Digest) -> bool) {
        (self.prompts, self.resources) = (Vec::new(), Vec::new());
        self.about.clone_from(&self.said);
        for beside in &self.beside {
            let has = callable(&beside.pin, beside.definition);
            match &beside.shown {
                Shown::Prompt(prompt) if has => self.prompts.push(prompt.clone()),
                Shown::Resource(resource) if has => self.resources.push(resource.clone()),
                Shown::Instructions if !has => {
                    self.about = self.said.as_ref().map(|said| said.without("instructions"));
                }
                _ => {}
            }
        }
    }

    /// Returns true if a prompt of this name is offered but blocked.
    pub fn holds_prompt_back(&self, name: &str) -> bool {
        let is = |it: &Beside| matches!(&it.shown, Shown::Prompt(it) if it.name.as_str() == name);
        let has = self.prompts.iter().any(|prompt| prompt.name.as_str() == name);
        !has && self.beside.iter().any(|beside| is(beside))
    }

    /// Iterates over all pinned definitions except blocked tools: names, digests, texts as
    /// received, and whether they contain invisible characters.
    pub fn definitions(&self) -> impl Iterator<Item = (&ToolName, Digest, &Json, bool)> {
        let entries =
            self.tools.iter().chain(&self.methods).map(|entry| {
                (&entry.key.name, entry.definition, &entry.tool.received, entry.hidden)
            });
        let beside = self.beside.iter().map(|it| (&it.pin, it.definition, &it.received, it.hidden));
        entries.chain(beside)
    }

    /// Returns the catalog after a failed listing: the last listing stays, marked as stale.
    #[must_use]
    pub fn failed(&self, error: &SourceError, now: Wall) -> Self {
        let known = self.state != State::Starting && !matches!(self.state, State::Failed(_));
        let mut next = self.clone();
        next.problems = vec![error.problem.clone()];
        if known {
            next.state = State::Stale;
            next.stale_since = self.stale_since.or(Some(now));
        } else {
            next.state = State::Failed(error.kind);
        }
        next
    }
}
