//! Offers of one source, compiled once per listing.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use tool::source::{SourceErrorKind, ToolAlias};
use tool::{
    CatalogItem, DeferMode, Digest, Durability, EventType, Json, Org, Problem, Prompt, Resource,
    Skill, SourceError, SourceListing, SourceName, SourceRevision, SourceTrust, ToolName, WallTime,
};

use crate::catalog_entry::CatalogEntry;
use crate::companion_items::{CompanionContent, CompanionItem};
use crate::companion_lookup::CompanionLookup;
use crate::known_entries::KnownEntries;

/// States of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceState {
    /// The source was not listed yet.
    Starting,
    /// The last listing is current.
    Current,
    /// The source is unavailable; its last listing stays active.
    Stale,
    /// The source is unavailable and was never listed.
    Failed(SourceErrorKind),
}

impl SourceState {
    /// Returns the word as it appears in responses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Current => "ok",
            Self::Stale => "stale",
            Self::Failed(_) => "failed",
        }
    }

    /// Returns the kind of failure.
    pub const fn error_kind(self) -> Option<SourceErrorKind> {
        match self {
            Self::Failed(fault) => Some(fault),
            Self::Starting | Self::Current | Self::Stale => None,
        }
    }
}

/// A tool or method that its pin blocks.
#[derive(Debug, Clone)]
pub struct BlockedTool {
    /// Entry of the tool.
    pub entry: Arc<CatalogEntry>,
    /// True if it is an MCP method.
    pub is_method: bool,
}

/// A definition of a source that has a pin.
#[derive(Debug, Clone, Copy)]
pub struct SourceDefinition<'a> {
    /// Name of the pin.
    pub pin_name: &'a ToolName,
    /// Digest of the definition.
    pub digest: Digest,
    /// Text as received.
    pub raw_definition: &'a Json,
    /// True if the text contains invisible characters.
    pub has_invisible_chars: bool,
}

/// Catalog of one source. Immutable.
#[derive(Debug, Clone)]
pub struct SourceCatalog {
    /// Name of the source.
    pub source: SourceName,
    /// `tool_file`, `module`, `mcp`, `builtin`, …
    pub kind: &'static str,
    /// Trust in the source.
    pub trust: SourceTrust,
    /// Durability of its call records, if the operator sets it.
    pub durability: Option<Durability>,
    /// Whether lists for models defer its tools.
    pub defer_mode: DeferMode,
    /// State of the source.
    pub state: SourceState,
    /// Revision of its listing.
    pub revision: SourceRevision,
    /// Tools in the source's order.
    pub tools: Vec<Arc<CatalogEntry>>,
    /// Prompts of the source.
    pub prompts: Vec<Prompt>,
    /// Resources of the source, and then its templates.
    pub resources: Vec<Resource>,
    /// Skills of the source.
    pub skills: Vec<Skill>,
    /// Event types of the source.
    pub events: Vec<EventType>,
    /// MCP methods that it answers besides tool calls.
    pub methods: Vec<Arc<CatalogEntry>>,
    /// Tools that pins block. They are neither listed nor callable, but keep their names reserved.
    pub blocked: Vec<BlockedTool>,
    /// Initialize result of the source, without blocked instructions.
    pub initialize_result: Option<Json>,
    /// The extensions of MCP that it declares, with their settings.
    pub extensions: Option<Json>,
    /// All its prompts, resources, skills, event types and instructions, including blocked ones.
    pub companion_items: Vec<Arc<CompanionItem>>,
    /// Indices of prompts, resources, skills and event types, built on first use.
    companion_lookup: OnceLock<Arc<CompanionLookup>>,
    /// Initialize result including blocked instructions.
    full_initialize_result: Option<Json>,
    /// Problems of the source.
    pub problems: Vec<Problem>,
    /// Time since when the listing is stale.
    pub stale_since: Option<WallTime>,
    /// Aliases of its tools.
    pub aliases: Vec<ToolAlias>,
    /// True if the operator trusts the MCP annotations of its tools.
    pub trusted_annotations: bool,
    /// True if it has the items of a toolset alone: what it does not list does not exist.
    pub(crate) is_selection: bool,
}

/// Returns the extensions that a server declares in its answer to `initialize`.
fn declared_extensions(initialize_result: &Json) -> Option<Json> {
    initialize_result.get("capabilities")?.get("extensions")
}

impl SourceCatalog {
    /// Creates the catalog of a source that was not listed yet.
    pub fn new_starting(source: SourceName, kind: &'static str, trust: SourceTrust) -> Self {
        Self {
            source,
            kind,
            trust,
            durability: None,
            defer_mode: DeferMode::Auto,
            state: SourceState::Starting,
            revision: SourceRevision::default(),
            tools: Vec::new(),
            prompts: Vec::new(),
            resources: Vec::new(),
            skills: Vec::new(),
            events: Vec::new(),
            methods: Vec::new(),
            blocked: Vec::new(),
            initialize_result: None,
            extensions: None,
            companion_items: Vec::new(),
            companion_lookup: OnceLock::new(),
            full_initialize_result: None,
            problems: Vec::new(),
            stale_since: None,
            aliases: Vec::new(),
            trusted_annotations: false,
            is_selection: false,
        }
    }

    /// Sets the operator's durability for its records.
    #[must_use]
    pub fn with_durability(mut self, durability: Option<Durability>) -> Self {
        self.durability = durability;
        self
    }

    /// Sets whether lists for models defer its tools.
    #[must_use]
    pub fn with_defer_mode(mut self, defer_mode: DeferMode) -> Self {
        self.defer_mode = defer_mode;
        self
    }

    /// Returns the catalog after a listing. An unchanged definition keeps its compiled entry,
    /// unless its executor changed.
    #[must_use]
    pub fn with_listing(&self, org: &Org, listing: SourceListing) -> Self {
        let trusted_annotations = listing.trusted_annotations;
        let SourceListing {
            revision,
            offers,
            problems,
            stale_since,
            initialize_result: about,
            aliases,
            ..
        } = listing;
        let state = if stale_since.is_some() { SourceState::Stale } else { SourceState::Current };
        let empty = Self::new_starting(self.source.clone(), self.kind, self.trust);
        let instructions = about.as_ref().and_then(CompanionItem::from_instructions);
        let extensions = about.as_ref().and_then(declared_extensions);
        let said = about.map(|about| about.escape_invisible_in_definition().unwrap_or(about));
        let mut next = Self {
            durability: self.durability,
            defer_mode: self.defer_mode,
            state,
            revision,
            full_initialize_result: said,
            extensions,
            problems,
            stale_since,
            aliases,
            trusted_annotations,
            ..empty
        };
        next.companion_items.extend(instructions.map(Arc::new));
        let mut seen = None;
        let known = KnownEntries::new(self, org);
        for offer in offers {
            let (tool, method) = match offer.item {
                CatalogItem::Tool(tool) => (tool, false),
                CatalogItem::Method(tool) => (tool, true),
                companion => {
                    let item = CompanionItem::from_item(companion);
                    next.companion_items.extend(item.map(Arc::new));
                    continue;
                }
            };
            let name = tool.name.clone();
            match known.reuse_or_compile(next.tools.len(), tool, offer.executor) {
                Ok(entry) if method => next.methods.push(entry),
                Ok(entry) => next.add_tool(entry, &self.tools, &mut seen),
                Err(message) => {
                    next.problems.push(Problem::new(name.to_string(), message).with_help(
                        "correct the tool's schema at its \
                        source",
                    ));
                }
            }
        }
        next.apply_pins_to_companions(|_, _| true);
        next
    }

    /// Adds a tool. A repeated definition is ignored; another definition under the same name is a
    /// problem. `seen` is made for the first tool that is not where the last listing had its name:
    /// until then no name can be repeated, because those of the last listing are not.
    fn add_tool(
        &mut self,
        entry: Arc<CatalogEntry>,
        last_tools: &[Arc<CatalogEntry>],
        seen: &mut Option<HashMap<ToolName, Arc<CatalogEntry>>>,
    ) {
        let name = &entry.tool_key.name;
        let last = last_tools.get(self.tools.len());
        if seen.is_none() && last.is_some_and(|last| last.tool_key.name == *name) {
            return self.tools.push(entry);
        }
        let named = |entry: &Arc<CatalogEntry>| (entry.tool_key.name.clone(), Arc::clone(entry));
        let seen = seen.get_or_insert_with(|| self.tools.iter().map(named).collect());
        match seen.get(name) {
            None => {
                seen.insert(name.clone(), Arc::clone(&entry));
                self.tools.push(entry);
            }
            Some(first) if first.definition_digest == entry.definition_digest => {}
            Some(_) => self.problems.push(
                Problem::new(name.to_string(), format!("Tool {name} already registered"))
                    .with_help("the first definition is used; rename or remove the second"),
            ),
        }
    }

    /// Returns true if `other` has the same offers, executors and state. Only their revisions may
    /// differ.
    pub fn is_same_catalog(&self, other: &Self) -> bool {
        let entries = |one: &[Arc<CatalogEntry>], two: &[Arc<CatalogEntry>]| {
            one.len() == two.len() && one.iter().zip(two).all(|(one, two)| one.is_same_entry(two))
        };
        let held = |(one, two): (&BlockedTool, &BlockedTool)| {
            one.is_method == two.is_method && one.entry.is_same_entry(&two.entry)
        };
        let beside = |(one, two): (&Arc<CompanionItem>, &Arc<CompanionItem>)| {
            one.pin_name == two.pin_name && one.definition_digest == two.definition_digest
        };
        let stands = |it: &Self| {
            let by_operator = (it.trust, it.durability, it.defer_mode, it.trusted_annotations);
            (by_operator, it.state, it.stale_since)
        };
        let says = |it: &Self| (it.initialize_result.clone(), it.full_initialize_result.clone());
        self.source == other.source
            && self.kind == other.kind
            && stands(self) == stands(other)
            && entries(&self.tools, &other.tools)
            && entries(&self.methods, &other.methods)
            && self.blocked.len() == other.blocked.len()
            && self.blocked.iter().zip(&other.blocked).all(held)
            && self.companion_items.len() == other.companion_items.len()
            && self.companion_items.iter().zip(&other.companion_items).all(beside)
            && (&self.prompts, &self.resources) == (&other.prompts, &other.resources)
            && (&self.skills, &self.events) == (&other.skills, &other.events)
            && (&self.problems, &self.aliases) == (&other.problems, &other.aliases)
            && says(self) == says(other)
    }

    /// Applies the pins: moves tools whose definition is not active to the blocked ones, and back.
    pub fn apply_pins(&mut self, callable: impl Fn(&ToolName, Digest) -> bool) {
        self.apply_pins_to_companions(&callable);
        let callable =
            |entry: &CatalogEntry| callable(&entry.tool_key.name, entry.definition_digest);
        let back = std::mem::take(&mut self.blocked);
        for BlockedTool { entry, is_method: method } in back {
            let list = if method { &mut self.methods } else { &mut self.tools };
            list.push(entry);
        }
        for (list, method) in [(&mut self.tools, false), (&mut self.methods, true)] {
            let out = list.extract_if(.., |entry| !callable(entry));
            self.blocked.extend(out.map(|entry| BlockedTool { entry, is_method: method }));
        }
    }

    fn apply_pins_to_companions(&mut self, callable: impl Fn(&ToolName, Digest) -> bool) {
        (self.prompts, self.resources) = (Vec::new(), Vec::new());
        (self.skills, self.events) = (Vec::new(), Vec::new());
        self.companion_lookup = OnceLock::new();
        self.initialize_result.clone_from(&self.full_initialize_result);
        for beside in &self.companion_items {
            let has = callable(&beside.pin_name, beside.definition_digest);
            match &beside.content {
                CompanionContent::Prompt(prompt) if has => self.prompts.push(prompt.clone()),
                CompanionContent::Resource(resource) if has => {
                    self.resources.push(resource.clone());
                }
                CompanionContent::Skill(skill) if has => self.skills.push(skill.clone()),
                CompanionContent::Event(event) if has => self.events.push(event.clone()),
                CompanionContent::Instructions if !has => {
                    self.initialize_result = self
                        .full_initialize_result
                        .as_ref()
                        .map(|said| said.without_member("instructions"));
                }
                _ => {}
            }
        }
        self.order_resources();
    }

    /// Puts templates behind all resources, so that a page of either visits no item of the other.
    pub(crate) fn order_resources(&mut self) {
        self.resources.sort_by_key(|resource| resource.is_template);
    }

    /// Returns the indices of its prompts and resources.
    pub(crate) fn companion_lookup(&self) -> &CompanionLookup {
        self.companion_lookup.get_or_init(|| Arc::new(CompanionLookup::new(self)))
    }

    /// Iterates over all pinned definitions except blocked tools.
    pub fn observed_definitions(&self) -> impl Iterator<Item = SourceDefinition<'_>> {
        let entries = self.tools.iter().chain(&self.methods).map(|entry| SourceDefinition {
            pin_name: &entry.tool_key.name,
            digest: entry.definition_digest,
            raw_definition: &entry.tool.raw_definition,
            has_invisible_chars: entry.has_invisible_chars,
        });
        let beside = self.companion_items.iter().map(|it| SourceDefinition {
            pin_name: &it.pin_name,
            digest: it.definition_digest,
            raw_definition: &it.raw_definition,
            has_invisible_chars: it.has_invisible_chars,
        });
        entries.chain(beside)
    }

    /// Returns the catalog after a failed listing: the last listing stays, marked as stale.
    #[must_use]
    pub fn with_failure(&self, error: &SourceError, now: WallTime) -> Self {
        let known =
            self.state != SourceState::Starting && !matches!(self.state, SourceState::Failed(_));
        let mut next = self.clone();
        next.problems = vec![error.problem.clone()];
        if known {
            next.state = SourceState::Stale;
            next.stale_since = self.stale_since.or(Some(now));
        } else {
            next.state = SourceState::Failed(error.kind);
        }
        next
    }
}
