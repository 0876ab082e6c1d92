//! What one source offers, compiled once per listing.

use std::collections::HashMap;
use std::sync::Arc;

use tool::source::SourceFault;
use tool::{
    Digest, Durability, Item, Json, Listing, Org, Problem, Prompt, Resource, Revision, SourceError,
    SourceName, ToolName, Trust, Wall,
};

use crate::beside::{Beside, Shown};
use crate::entry::Entry;

/// How a source stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It was not listed yet.
    Starting,
    /// It was listed, and that is current.
    Ok,
    /// It is away; what it offered last is kept.
    Stale,
    /// It is away, and nothing of it is known.
    Failed(SourceFault),
}

impl State {
    /// The word, as it stands in answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ok => "ok",
            Self::Stale => "stale",
            Self::Failed(_) => "failed",
        }
    }

    /// Why it failed.
    pub const fn fault(self) -> Option<SourceFault> {
        match self {
            Self::Failed(fault) => Some(fault),
            Self::Starting | Self::Ok | Self::Stale => None,
        }
    }
}

/// Something that is offered and not to be had: its pin does not let it.
#[derive(Debug, Clone)]
pub struct Held {
    /// It.
    pub entry: Arc<Entry>,
    /// Whether it is one of the methods.
    pub method: bool,
}

/// One source's part of the catalog. Immutable.
#[derive(Debug, Clone)]
pub struct Shelf {
    /// The source.
    pub source: SourceName,
    /// `tool_file`, `module`, `mcp`, `builtin`, …
    pub kind: &'static str,
    /// How far it is trusted.
    pub trust: Trust,
    /// How sure the records of its calls must be, where the operator says.
    pub durability: Option<Durability>,
    /// How it stands.
    pub state: State,
    /// Which state of the source this is.
    pub revision: Revision,
    /// Its tools, in its order.
    pub tools: Vec<Arc<Entry>>,
    /// Its prompts.
    pub prompts: Vec<Prompt>,
    /// Its resources and templates.
    pub resources: Vec<Resource>,
    /// Methods of MCP's that it answers beside the calls of its tools.
    pub methods: Vec<Arc<Entry>>,
    /// What it offers and pins hold back: in no list and no call, but its names are taken.
    pub held: Vec<Held>,
    /// What it says of itself, in MCP's words; without instructions that pins hold back.
    pub about: Option<Json>,
    /// All prompts, resources and instructions that it offers, those that pins hold back among them.
    pub beside: Vec<Arc<Beside>>,
    /// All that it says of itself.
    said: Option<Json>,
    /// What is wrong with it.
    pub problems: Vec<Problem>,
    /// Since when this is only remembered.
    pub stale_since: Option<Wall>,
    /// Second names of its tools, each with the tool's own.
    pub aliases: Vec<(ToolName, ToolName)>,
    /// Whether the operator trusts what the annotations of its tools say (MCP).
    pub trusted_annotations: bool,
}

impl Shelf {
    /// Of a source that was not listed yet.
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

    /// The same with the operator's word on its records.
    #[must_use]
    pub fn durable(mut self, durability: Option<Durability>) -> Self {
        self.durability = durability;
        self
    }

    /// The shelf after a listing. A definition that did not change keeps its compiled entry, unless its
    /// executor changed.
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

    /// The same definition twice is one tool; another one under the same name does not take its place.
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

    /// Whether this offers what `other` does, run by the same executors, and stands as it does. Nobody who sees
    /// the one instead of the other could tell, but for the revision.
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

    /// Divides all that is offered into what is to be had and what is held back.
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

    /// Whether a prompt of this name is offered and held back.
    pub fn holds_prompt_back(&self, name: &str) -> bool {
        let is = |it: &Beside| matches!(&it.shown, Shown::Prompt(it) if it.name.as_str() == name);
        let has = self.prompts.iter().any(|prompt| prompt.name.as_str() == name);
        !has && self.beside.iter().any(|beside| is(beside))
    }

    /// All definitions that are pinned, but for tools that are held back: names, hashes, texts as received,
    /// and whether there are characters in them that nobody sees.
    pub fn definitions(&self) -> impl Iterator<Item = (&ToolName, Digest, &Json, bool)> {
        let entries =
            self.tools.iter().chain(&self.methods).map(|entry| {
                (&entry.key.name, entry.definition, &entry.tool.received, entry.hidden)
            });
        let beside = self.beside.iter().map(|it| (&it.pin, it.definition, &it.received, it.hidden));
        entries.chain(beside)
    }

    /// The shelf after a listing failed: what is known is kept, and marked.
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
