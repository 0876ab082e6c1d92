//! The catalog: all source catalogs merged in the operator's order.

mod catalog_toolsets;
mod tool_position;

use std::collections::{BTreeMap, HashSet};
use std::hash::BuildHasher as _;
use std::sync::Arc;

use tool::{FastHashState, FastMap, HashTrie, Problem, SourceName, ToolKey, ToolName};

use crate::catalog_entry::CatalogEntry;
use crate::merged_source::{ClaimOutcome, MergedSource};
use crate::name_claims::{
    ClaimChanges, ClaimedNames, NameClaim, confusable_class, resolve_claims, resolve_single_claim,
};
use crate::source_catalog::SourceCatalog;
use crate::toolset::Toolset;
use tool::confusable_text::{confusable_skeleton, confusable_skeletons};
use tool::source::ToolAlias;

pub use tool_position::ToolPosition;

/// All current items. Immutable and versioned; a call keeps the catalog that it started with.
/// Unchanged parts are shared with the previous catalog.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// Version; grows with every change.
    pub version: u64,
    /// Sources in the operator's order. A source keeps its slot while it exists; a removed one
    /// leaves it empty.
    sources_by_slot: Vec<Option<Arc<MergedSource>>>,
    len: usize,
    slots: Arc<FastMap<SourceName, usize>>,
    /// Positions of tools by the hash of their names.
    names_by_hash: HashTrie<ToolPosition>,
    /// Claims of the source catalogs, by class of confusable names.
    name_claims: HashTrie<NameClaim>,
    /// Positions by alias, if no tool has the alias as its own name.
    alias_positions: FastMap<String, ToolPosition>,
    /// Slots of the sources that list a resource, template or file of a skill, by the hash of its URI.
    uri_slots: HashTrie<u32>,
    /// Named selections of its items.
    toolsets: Arc<BTreeMap<SourceName, Arc<Toolset>>>,
    /// True if it is the selection of a toolset, or nothing: not the whole catalog of its version.
    is_selection: bool,
    hash_state: FastHashState,
}

/// Maximum number of empty slots beyond the number of sources.
const MAX_EMPTY_SLOTS: usize = 16;

impl Catalog {
    /// Merges source catalogs in the operator's order. If two sources offer the same name or
    /// confusable names, the first keeps it, and the other's tool is listed by its qualified name,
    /// `SOURCE.NAME`. Each source has one catalog.
    pub fn from_sources(version: u64, source_catalogs: Vec<Arc<SourceCatalog>>) -> Self {
        Self::default().with_sources(version, source_catalogs)
    }

    /// Merges incrementally: the cost depends on the changed source catalogs and the tools whose
    /// names conflict with theirs. If the order of sources changes, everything is merged again.
    #[must_use]
    pub fn with_sources(&self, version: u64, source_catalogs: Vec<Arc<SourceCatalog>>) -> Self {
        if let Some(slots) = self.assign_slots(&source_catalogs) {
            return self.with_slots(version, slots);
        }
        let none = Self {
            hash_state: self.hash_state.clone(),
            toolsets: Arc::clone(&self.toolsets),
            is_selection: self.is_selection,
            ..Self::default()
        };
        none.with_slots(version, source_catalogs.into_iter().map(Some).collect())
    }

    /// Assigns source catalogs to slots; `None` if their order changed.
    fn assign_slots(
        &self,
        shelves: &[Arc<SourceCatalog>],
    ) -> Option<Vec<Option<Arc<SourceCatalog>>>> {
        let mut slots = vec![None; self.sources_by_slot.len()];
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
        (slots.len() <= 2 * shelves.len() + MAX_EMPTY_SLOTS).then_some(slots)
    }

    fn with_slots(&self, number: u64, slots: Vec<Option<Arc<SourceCatalog>>>) -> Self {
        let (parts, slot_of) = (self.sources_by_slot.clone(), Arc::clone(&self.slots));
        let hashing = self.hash_state.clone();
        let mut next = Self {
            version: number,
            sources_by_slot: parts,
            slots: slot_of,
            hash_state: hashing,
            toolsets: Arc::clone(&self.toolsets),
            is_selection: self.is_selection,
            ..Self::default()
        };
        next.sources_by_slot.resize(slots.len(), None);
        (next.name_claims, next.uri_slots) = (self.name_claims.clone(), self.uri_slots.clone());
        let (mut changes, mut is_renumbered) = (ClaimChanges::default(), false);
        for (slot, shelf) in slots.into_iter().enumerate() {
            let before = self.merged_source_at(slot).map(Arc::as_ref);
            let (old, new) = (before.map(MergedSource::source_catalog), shelf.as_ref());
            if old.map(Arc::as_ptr) == new.map(Arc::as_ptr) {
                continue;
            }
            is_renumbered |= old.map(|old| &old.source) != new.map(|new| &new.source);
            next.replace_uris(slot, (old, new));
            let both = (old.map(Arc::as_ref), new.map(Arc::as_ref));
            let own = ClaimChanges::between(&self.hash_state, slot, both);
            if let Some(at) = next.sources_by_slot.get_mut(slot) {
                let part = |shelf| MergedSource::with_source_catalog(before, shelf, &own);
                *at = shelf.map(|shelf| Arc::new(part(shelf)));
            }
            changes.append(own);
        }
        let ClaimChanges { removed, added } = &changes;
        let mut classes: HashSet<u64, FastHashState> =
            removed.iter().chain(added).map(|(class, _)| *class).collect();
        classes.extend(removed.iter().flat_map(|(_, claim)| self.unqualified_classes(*claim)));
        classes.extend(added.iter().flat_map(|(_, claim)| next.unqualified_classes(*claim)));
        for (class, claim) in removed {
            next.name_claims.remove(*class, |it| it == claim);
        }
        for (class, claim) in added {
            next.name_claims.insert(*class, *claim);
        }
        next.resolve_classes(self, classes);
        next.len = next.sources_by_slot.iter().flatten().map(|part| part.len()).sum();
        if is_renumbered {
            let parts = next.sources_by_slot.iter().enumerate().rev();
            let named = parts.filter_map(|(slot, part)| {
                Some((part.as_ref()?.source_catalog().source.clone(), slot))
            });
            next.slots = Arc::new(named.collect());
        }
        next.alias_positions = next.resolve_aliases();
        next
    }

    /// Resolves the names of the classes that changed since `before`.
    fn resolve_classes(&mut self, before: &Self, classes: HashSet<u64, FastHashState>) {
        self.names_by_hash = before.names_by_hash.clone();
        let mut named = Vec::new();
        for class in classes {
            let old = before.name_claims.get_entries(class).filter(|claim| claim.is_tool());
            for (hash, position) in old.filter_map(|claim| before.name_entry(*claim)) {
                self.names_by_hash.remove(hash, |it| *it == position);
            }
            let mut claims = self.name_claims.get_entries(class).copied();
            let first = claims.next();
            let only = first.filter(|_| claims.next().is_none());
            let shelf = |claim: NameClaim| {
                self.merged_source_at(claim.slot_index()).map(|part| part.source_catalog().as_ref())
            };
            let outcomes =
                match only.and_then(|claim| Some(resolve_single_claim(claim, shelf(claim)?))) {
                    Some(outcome) => vec![outcome],
                    None => self.resolve_class(class).1,
                };
            for outcome in outcomes {
                let claim = outcome.claim;
                if let Some(Some(part)) = self.sources_by_slot.get_mut(claim.slot_index()) {
                    MergedSource::apply_outcome(part, outcome);
                }
                if claim.is_tool() {
                    named.extend(self.name_entry(claim));
                }
            }
        }
        for (hash, position) in named {
            self.names_by_hash.insert(hash, position);
        }
    }

    fn resolve_class(&self, class: u64) -> (ClaimedNames<'_>, Vec<ClaimOutcome>) {
        let part = |slot| self.sources_by_slot.get(slot).and_then(Option::as_deref);
        let shelf = |slot| part(slot).map(|part: &MergedSource| part.source_catalog().as_ref());
        resolve_claims(self.name_claims.get_entries(class).copied().collect(), shelf, |name| {
            self.is_unclaimed(name)
        })
    }

    /// Returns true if no tool has this as its own name, or one that looks like it.
    fn is_unclaimed(&self, name: &ToolName) -> bool {
        let mut claims = self
            .name_claims
            .get_entries(confusable_class(&self.hash_state, &confusable_skeleton(name.as_str())));
        !claims.any(|claim| {
            let own = self
                .merged_source_at(claim.slot_index())
                .and_then(|part| claim.own_name(part.source_catalog()));
            own.is_some_and(|own| {
                confusable_skeletons(own)
                    .any(|look| confusable_skeletons(name.as_str()).any(|it| it == look))
            })
        })
    }

    /// Returns the classes of the names that a qualified-looking name qualifies. Adding or removing
    /// such a tool decides whether the loser of such a name can use this one.
    fn unqualified_classes(&self, claim: NameClaim) -> impl Iterator<Item = u64> {
        let part = self.merged_source_at(claim.slot_index());
        let name = part.and_then(|part| claim.own_name(part.source_catalog())).unwrap_or_default();
        split_qualified_name(name)
            .map(|(_, own)| confusable_class(&self.hash_state, &confusable_skeleton(own)))
    }

    /// Returns the position of a claim's tool with the hash of its name.
    fn name_entry(&self, claim: NameClaim) -> Option<(u64, ToolPosition)> {
        let at = ToolPosition::from_indices(claim.slot_index(), claim.tool_index());
        Some((self.hash_state.hash_one(self.entry_at(at)?.name.as_str()), at))
    }

    /// Resolves all aliases again; there are few.
    fn resolve_aliases(&self) -> FastMap<String, ToolPosition> {
        let mut aliases = FastMap::<String, ToolPosition>::default();
        let shelves = self.list_sources().filter(|shelf| !shelf.aliases.is_empty());
        for ToolAlias { alias, tool_name } in shelves.flat_map(|shelf| &shelf.aliases) {
            let Some((at, _)) = self.find_by_name(tool_name.as_str()) else { continue };
            // An alias that looks like another tool's name would be a disguise.
            let (taken, _) = self.resolve_class(confusable_class(
                &self.hash_state,
                &confusable_skeleton(alias.as_str()),
            ));
            if taken.is_name_free(alias.as_str()) {
                aliases.entry(alias.to_string()).or_insert(at);
            }
        }
        aliases
    }

    /// Finds a tool and its position by its listed name, by an alias, or by its qualified name,
    /// `SOURCE.NAME`.
    pub fn find_tool(&self, name: &str) -> Option<(ToolPosition, &Arc<CatalogEntry>)> {
        let second = || {
            let at = *self.alias_positions.get(name)?;
            self.entry_at(at).map(|entry| (at, entry))
        };
        self.find_by_name(name).or_else(second).or_else(|| {
            split_qualified_name(name).find_map(|(source, own)| self.find_in_source(source, own))
        })
    }

    /// Finds a tool by its source and its own name there, independent of its listed name.
    pub fn find_in_source(
        &self,
        source: &str,
        own_name: &str,
    ) -> Option<(ToolPosition, &Arc<CatalogEntry>)> {
        let slot = self.slot_of(source)?;
        let is = |entry: &Arc<CatalogEntry>| {
            entry.tool_key.name.as_str() == own_name && entry.tool_key.source.as_str() == source
        };
        let found =
            self.find_by_name(own_name).filter(|(at, entry)| at.slot_index() == slot && is(entry));
        let found = found.or_else(|| {
            self.find_by_name(&format!("{source}.{own_name}")).filter(|(_, entry)| is(entry))
        });
        found.or_else(|| self.find_renamed(slot, own_name))
    }

    /// Finds a tool by its key.
    pub fn find_by_key(&self, key: &ToolKey) -> Option<(ToolPosition, &Arc<CatalogEntry>)> {
        let found = self.find_in_source(key.source.as_str(), key.name.as_str())?;
        (found.1.tool_key == *key).then_some(found)
    }

    fn find_by_name(&self, name: &str) -> Option<(ToolPosition, &Arc<CatalogEntry>)> {
        let mut found = self.names_by_hash.get_entries(self.hash_state.hash_one(name));
        found.find_map(|at| {
            let entry = self.entry_at(*at).filter(|entry| entry.name.as_str() == name)?;
            Some((*at, entry))
        })
    }

    fn entry_at(&self, at: ToolPosition) -> Option<&Arc<CatalogEntry>> {
        self.merged_source_at(at.slot_index())?.tool_at(at.tool_index())
    }

    /// Iterates over all tools: sources in the operator's order, tools in their source's.
    pub fn list_tools(&self) -> impl Iterator<Item = &Arc<CatalogEntry>> + Clone {
        self.sources_by_slot.iter().flatten().flat_map(|part| part.tools())
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
    pub fn merged_sources(&self) -> &[Option<Arc<MergedSource>>] {
        &self.sources_by_slot
    }

    fn merged_source_at(&self, slot: usize) -> Option<&Arc<MergedSource>> {
        self.sources_by_slot.get(slot)?.as_ref()
    }

    /// Returns the slot of a source.
    pub fn slot_of(&self, source: &str) -> Option<usize> {
        self.slots.get(source).copied()
    }

    /// Returns the merged source of this name.
    pub fn find_merged_source(&self, source: &str) -> Option<&Arc<MergedSource>> {
        self.merged_source_at(self.slot_of(source)?)
    }

    /// Returns the catalog of one source.
    pub fn find_source(&self, source: &str) -> Option<&Arc<SourceCatalog>> {
        self.find_merged_source(source).map(|part| part.source_catalog())
    }

    /// Finds an MCP method of one source by its name of [`tool::MCP_METHODS`].
    pub fn find_method(&self, source: &str, name: &str) -> Option<&Arc<CatalogEntry>> {
        self.find_source(source)?.methods.iter().find(|entry| entry.tool_key.name.as_str() == name)
    }

    /// Iterates over the source catalogs in the operator's order.
    pub fn list_sources(&self) -> impl Iterator<Item = &Arc<SourceCatalog>> + Clone {
        self.sources_by_slot.iter().flatten().map(|part| part.source_catalog())
    }

    /// Replaces the URIs of one slot, if its source catalogs list any.
    fn replace_uris(
        &mut self,
        slot: usize,
        (old, new): (Option<&Arc<SourceCatalog>>, Option<&Arc<SourceCatalog>>),
    ) {
        let slot = u32::try_from(slot).unwrap_or(u32::MAX);
        let hashes = [old, new].map(|it| it.map(|it| self.uri_hashes(it)).unwrap_or_default());
        let [removed, added] = hashes;
        for hash in removed {
            self.uri_slots.remove(hash, |it| *it == slot);
        }
        for hash in added {
            self.uri_slots.insert(hash, slot);
        }
    }

    /// Returns the hashes of the URIs that a source lists, each once.
    fn uri_hashes(&self, source_catalog: &SourceCatalog) -> HashSet<u64, FastHashState> {
        let files = source_catalog.skills.iter().flat_map(|skill| skill.files.iter().flatten());
        let uris = source_catalog.resources.iter().map(|resource| resource.uri.as_str());
        let uris = uris.chain(files.map(|file| file.uri.as_str()));
        let uris = uris.chain(source_catalog.skills.iter().map(|skill| skill.uri.as_str()));
        uris.map(|uri| self.hash_state.hash_one(uri)).collect()
    }

    /// Iterates over the slots of the sources that list a resource, template or file of a skill of this
    /// URI.
    pub fn slots_with_uri(&self, uri: &str) -> impl Iterator<Item = usize> {
        let slots = self.uri_slots.get_entries(self.hash_state.hash_one(uri));
        slots.filter_map(|slot| usize::try_from(*slot).ok())
    }

    /// Iterates over the problems of one source: its own, and the names it lost.
    pub fn source_problems<'a>(
        &'a self,
        source: &SourceName,
    ) -> impl Iterator<Item = &'a Problem> + use<'a> {
        let part = self.find_merged_source(source.as_str());
        part.into_iter()
            .flat_map(|part| part.source_catalog().problems.iter().chain(part.list_name_problems()))
    }
}

/// Splits a qualified name into source and own name at each dot; either may contain dots.
pub fn split_qualified_name(name: &str) -> impl Iterator<Item = (&str, &str)> {
    let dots = name.match_indices('.').map(|(dot, _)| dot);
    dots.filter_map(|dot| Some((name.get(..dot)?, name.get(dot + 1..)?)))
}

#[cfg(test)]
mod tests;
