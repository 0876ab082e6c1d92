//! Resolution of name conflicts between sources. Only names in the same class of confusable names
//! are compared.
//!
//! Names that look alike are in one class, so the result for a name depends on the claims of its
//! class. A tool that loses its name is called by its qualified one, `SOURCE.NAME`, unless another
//! tool has that as its own, which depends on the claims of that class.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use tool::{Executor, FastHashState, FastMap, Problem, ToolName};

use crate::catalog_entry::CatalogEntry;
use crate::merged_source::ClaimOutcome;
use crate::source_catalog::{BlockedTool, SourceCatalog};
use tool::confusable_text::{confusable_skeleton, confusable_skeletons};

/// Kinds of claims, in the order in which a source's problems are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ClaimKind {
    /// A tool claims a name.
    Tool,
    /// A blocked tool claims a name.
    BlockedTool,
    /// A title with non-ASCII letters claims no name, but is checked against the names of other
    /// tools.
    Title,
}

/// A claim of one source catalog; the index is that in its list of this kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NameClaim {
    kind: ClaimKind,
    slot: u32,
    index: u32,
}

impl NameClaim {
    fn new(kind: ClaimKind, (slot, index): (usize, usize)) -> Self {
        let number = |number| u32::try_from(number).unwrap_or(u32::MAX);
        Self { kind, slot: number(slot), index: number(index) }
    }

    pub(crate) fn slot_index(self) -> usize {
        usize::try_from(self.slot).unwrap_or_default()
    }

    pub(crate) fn tool_index(self) -> usize {
        usize::try_from(self.index).unwrap_or_default()
    }

    pub(crate) fn is_tool(self) -> bool {
        self.kind == ClaimKind::Tool
    }

    /// Returns the claimed name; `None` for a title.
    pub(crate) fn own_name(self, source_catalog: &SourceCatalog) -> Option<&str> {
        let entry = match self.kind {
            ClaimKind::Tool => source_catalog.tools.get(self.tool_index()),
            ClaimKind::BlockedTool => {
                source_catalog.blocked.get(self.tool_index()).map(|held| &held.entry)
            }
            ClaimKind::Title => None,
        };
        entry.map(|entry| entry.name.as_str())
    }

    /// Returns the order of resolution: sources in the operator's order, titles after all names.
    fn resolution_order(self) -> impl Ord {
        (self.kind == ClaimKind::Title, self.slot, self.kind, self.index)
    }
}

/// Returns the class of a skeleton. The letters `i` and `l` count as one, so that both skeletons of
/// a name with a capital `I` fall into one class.
pub(crate) fn confusable_class(hash_state: &FastHashState, skeleton: &str) -> u64 {
    hash_state.hash_one(skeleton.replace('i', "l"))
}

/// A claim with its class.
pub(crate) type ClassifiedClaim = (u64, NameClaim);

/// Claims in which the source catalog of a slot differs from the one before it.
#[derive(Debug, Default)]
pub(crate) struct ClaimChanges {
    pub(crate) removed: Vec<ClassifiedClaim>,
    pub(crate) added: Vec<ClassifiedClaim>,
}

impl ClaimChanges {
    /// Compares two source catalogs of one slot. A tool with the same entry at the same index keeps
    /// its claims, so that one changed tool costs no more than a comparison of the others.
    pub(crate) fn between(
        hash_state: &FastHashState,
        slot: usize,
        (old, new): (Option<&SourceCatalog>, Option<&SourceCatalog>),
    ) -> Self {
        let mut changes = Self::default();
        let lists = (old.map_or(&[][..], |it| &it.tools), new.map_or(&[][..], |it| &it.tools));
        let claims = |at, entry: &Arc<CatalogEntry>| claims_of_tool(hash_state, (slot, at), entry);
        changes.compare_lists(lists, Arc::ptr_eq, claims);
        let lists = (old.map_or(&[][..], |it| &it.blocked), new.map_or(&[][..], |it| &it.blocked));
        let is_same = |one: &BlockedTool, other: &BlockedTool| {
            one.is_method == other.is_method && Arc::ptr_eq(&one.entry, &other.entry)
        };
        let claims = |at, held: &BlockedTool| {
            let class = || name_class(hash_state, &held.entry);
            let claim = NameClaim::new(ClaimKind::BlockedTool, (slot, at));
            (!held.is_method).then(|| (class(), claim)).into_iter()
        };
        changes.compare_lists(lists, is_same, claims);
        changes
    }

    fn compare_lists<T, C: Iterator<Item = ClassifiedClaim>>(
        &mut self,
        (old, new): (&[T], &[T]),
        is_same: impl Fn(&T, &T) -> bool,
        claims: impl Fn(usize, &T) -> C,
    ) {
        for at in 0..old.len().max(new.len()) {
            let (old, new) = (old.get(at), new.get(at));
            if old.zip(new).is_some_and(|(old, new)| is_same(old, new)) {
                continue;
            }
            self.removed.extend(old.into_iter().flat_map(|old| claims(at, old)));
            self.added.extend(new.into_iter().flat_map(|new| claims(at, new)));
        }
    }

    /// Adds the changes of another slot.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.removed.append(&mut other.removed);
        self.added.append(&mut other.added);
    }
}

/// Returns the class of the name of an entry.
fn name_class(hash_state: &FastHashState, entry: &CatalogEntry) -> u64 {
    confusable_class(hash_state, &confusable_skeleton(entry.name.as_str()))
}

/// Returns the claims of the tool at this slot and index.
fn claims_of_tool(
    hash_state: &FastHashState,
    at: (usize, usize),
    entry: &CatalogEntry,
) -> impl Iterator<Item = ClassifiedClaim> + use<> {
    let title = non_ascii_title(entry)
        .map(|title| confusable_class(hash_state, &confusable_skeleton(title)))
        .map(|class| (class, NameClaim::new(ClaimKind::Title, at)));
    let name = (name_class(hash_state, entry), NameClaim::new(ClaimKind::Tool, at));
    std::iter::once(name).chain(title)
}

/// Returns a title with non-ASCII letters. Plain titles such as "Search" are no disguise.
fn non_ascii_title(entry: &CatalogEntry) -> Option<&str> {
    entry.tool.title.as_deref().filter(|title| !title.is_ascii())
}

/// Resolves the claims of one or more classes: the first keeps a name, and others get their
/// qualified name if it is free, and a problem. Returns the outcome of each claim.
pub(crate) fn resolve_claims<'a>(
    mut claims: Vec<NameClaim>,
    source_catalog: impl Fn(usize) -> Option<&'a SourceCatalog>,
    is_free: impl Fn(&ToolName) -> bool,
) -> (ClaimedNames<'a>, Vec<ClaimOutcome>) {
    claims.sort_unstable_by_key(|claim| claim.resolution_order());
    let (mut taken, mut outcomes) = (ClaimedNames::default(), Vec::with_capacity(claims.len()));
    let mut first: FastMap<&str, NameOwner<'a>> = FastMap::default();
    for claim in claims {
        let Some(source_catalog) = source_catalog(claim.slot_index()) else { continue };
        let entry = match claim.kind {
            ClaimKind::Tool | ClaimKind::Title => source_catalog.tools.get(claim.tool_index()),
            ClaimKind::BlockedTool => {
                source_catalog.blocked.get(claim.tool_index()).map(|held| &held.entry)
            }
        };
        let Some(entry) = entry else { continue };
        let mut tool = None;
        let told = match claim.kind {
            ClaimKind::Title => taken.check_title(entry),
            ClaimKind::BlockedTool => {
                taken.try_claim(entry).err().map(|other| name_conflict(entry, other, None))
            }
            ClaimKind::Tool => {
                let name = entry.name.as_str();
                if let Some(first) = first.get_mut(name).filter(|first| first.is_same_tool(entry)) {
                    first.other_executors.push(Arc::clone(&entry.executor));
                    None
                } else {
                    match taken.try_claim(entry) {
                        Ok(()) => {
                            let at = outcomes.len();
                            first.insert(
                                name,
                                NameOwner { outcome_index: at, entry, other_executors: Vec::new() },
                            );
                            None
                        }
                        Err(other) => {
                            let qualified =
                                entry.tool_key.qualified_name().ok().filter(|name| is_free(name));
                            let told = name_conflict(entry, other, qualified.as_ref());
                            tool = qualified.map(|name| Arc::new(entry.with_name(name)));
                            Some(told)
                        }
                    }
                }
            }
        };
        outcomes.push(ClaimOutcome { claim, tool, problem: told });
    }
    for listed in first.into_values() {
        if let Some(outcome) = outcomes.get_mut(listed.outcome_index) {
            outcome.tool = Some(listed.to_entry());
        }
    }
    (taken, outcomes)
}

/// Resolves a claim that is alone in its class, as nearly all are, and so always succeeds.
pub(crate) fn resolve_single_claim(
    claim: NameClaim,
    source_catalog: &SourceCatalog,
) -> ClaimOutcome {
    let tool = source_catalog.tools.get(claim.tool_index()).filter(|_| claim.is_tool());
    ClaimOutcome { claim, tool: tool.cloned(), problem: None }
}

/// A tool that won its name, and further executors of the same tool.
struct NameOwner<'a> {
    /// Index of its outcome.
    outcome_index: usize,
    entry: &'a Arc<CatalogEntry>,
    other_executors: Vec<Arc<dyn Executor>>,
}

impl NameOwner<'_> {
    /// Returns true if two sources offer the same definition and both run it on nodes: one tool on
    /// several nodes.
    fn is_same_tool(&self, other: &CatalogEntry) -> bool {
        let placed = |entry: &CatalogEntry| !entry.executor.node_ids().is_empty();
        self.entry.tool_key.source != other.tool_key.source
            && self.entry.definition_digest == other.definition_digest
            && placed(other)
            && placed(self.entry)
    }

    fn to_entry(&self) -> Arc<CatalogEntry> {
        let all = (!self.other_executors.is_empty())
            .then(|| self.entry.executor.merge_with(&self.other_executors))
            .flatten();
        all.map_or_else(|| Arc::clone(self.entry), |all| Arc::new(self.entry.with_executor(all)))
    }
}

/// Claimed names by their skeletons.
#[derive(Default)]
pub(crate) struct ClaimedNames<'a>(FastMap<String, &'a Arc<CatalogEntry>>);

impl<'a> ClaimedNames<'a> {
    /// Claims a tool's name unless another source has one that looks like it. Blocked tools keep
    /// their names reserved too.
    fn try_claim(&mut self, entry: &'a Arc<CatalogEntry>) -> Result<(), &'a CatalogEntry> {
        let name = entry.name.as_str();
        let other = confusable_skeletons(name).find_map(|look| {
            self.0.get(&look).filter(|first| first.tool_key.source != entry.tool_key.source)
        });
        if let Some(first) = other {
            return Err(first);
        }
        for look in confusable_skeletons(name) {
            self.0.entry(look).or_insert(entry);
        }
        Ok(())
    }

    /// Returns true if no tool has this name or one that looks like it.
    pub(crate) fn is_name_free(&self, name: &str) -> bool {
        !confusable_skeletons(name).any(|look| self.0.contains_key(&look))
    }

    /// Reports a title with non-ASCII letters that looks like another source's tool.
    fn check_title(&self, entry: &CatalogEntry) -> Option<Problem> {
        let other = self.0.get(&confusable_skeleton(non_ascii_title(entry)?))?;
        (other.tool_key.source != entry.tool_key.source).then(|| {
            let (name, source) = (&other.tool_key.name, &other.tool_key.source);
            let told = format!("its title looks like the tool `{name}` of source `{source}`");
            Problem::new(entry.tool_key.name.to_string(), told)
                .with_help("review it: `toolkeep pin show`")
        })
    }
}

/// Reports a name conflict, and the name that the tool has instead.
fn name_conflict(
    entry: &CatalogEntry,
    first: &CatalogEntry,
    instead: Option<&ToolName>,
) -> Problem {
    let (name, holder) = (&entry.tool_key.name, &first.tool_key);
    let message = if *name == holder.name {
        format!("the name `{name}` is already taken by source `{}`", holder.source)
    } else {
        format!("the name `{name}` looks like `{}` of source `{}`", holder.name, holder.source)
    };
    let problem = Problem::new(name.to_string(), message);
    match instead {
        Some(instead) => problem.with_help(format!(
            "use the name `{instead}`, or list its source first to give it the short name"
        )),
        None => problem.with_help("rename one of the two"),
    }
}
