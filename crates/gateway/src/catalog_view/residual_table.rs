//! The policy residual of each tool of a source, interned so that views share memory.
//!
//! Rights classes differ in few tools, so the views of a snapshot share common parts: a thousand
//! views take little more memory and CPU cache than one.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use catalog::Catalog;
use policy::ResidualPolicy;
use tool::FastMap;

use super::source_view::SourceView;

/// Number of tools per chunk.
pub(super) const CHUNK_TOOLS: usize = 256;
/// Number of chunks remembered for sharing: 2 MiB.
const MAX_CHUNKS: usize = 4_096;
/// Number of residual lists remembered for sharing.
const MAX_LISTS: usize = 256;

/// Number of source views remembered for sharing: some 4 MiB.
const MAX_SOURCE_VIEWS: usize = 16_384;

/// A chunk of up to [`CHUNK_TOOLS`] tools: zero for a hidden tool, else an index into the residual
/// list, counted from one.
pub(super) type ResidualChunk = [u16];

/// Residuals of all tools of one source view.
#[derive(Debug)]
pub(super) struct ResidualTable {
    /// Distinct residuals; many tools share one.
    distinct_residuals: Arc<[ResidualPolicy]>,
    chunks: Box<[Arc<ResidualChunk>]>,
}

impl ResidualTable {
    pub(super) fn residual_at(&self, index: usize) -> Option<&ResidualPolicy> {
        self.kind_at(*self.chunks.get(index / CHUNK_TOOLS)?.get(index % CHUNK_TOOLS)?)
    }

    /// Returns the residuals of a chunk of tools, each as an index that [`Self::kind_at`] takes.
    pub(super) fn chunk_at(&self, chunk: usize) -> Option<&ResidualChunk> {
        self.chunks.get(chunk).map(AsRef::as_ref)
    }

    fn kind_at(&self, kind: u16) -> Option<&ResidualPolicy> {
        self.distinct_residuals.get(usize::from(kind).checked_sub(1)?)
    }

    /// Returns a hash of the addresses of its parts.
    pub(super) fn parts_hash(&self, hash_state: &impl BuildHasher) -> u64 {
        let chunks = self.chunks.iter().map(|chunk| Arc::as_ptr(chunk).addr());
        let list = Arc::as_ptr(&self.distinct_residuals).addr();
        hash_state.hash_one((list, chunks.collect::<Vec<_>>()))
    }

    /// Returns true if both share all parts.
    pub(super) fn shares_parts_with(&self, other: &Self) -> bool {
        let runs = self.chunks.iter().zip(&other.chunks);
        Arc::ptr_eq(&self.distinct_residuals, &other.distinct_residuals)
            && self.chunks.len() == other.chunks.len()
            && runs.into_iter().all(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// Iterates over whether each tool is visible, in order, starting at `start`.
    pub(super) fn visible_tools(&self, start: usize) -> impl Iterator<Item = bool> + Clone {
        let runs = self.chunks.iter().skip(start / CHUNK_TOOLS);
        runs.flat_map(|run| run.iter()).skip(start % CHUNK_TOOLS).map(|kind| *kind > 0)
    }
}

/// Builds a residual table tool by tool.
#[derive(Debug, Default)]
pub(super) struct ResidualTableBuilder {
    distinct_residuals: Vec<ResidualPolicy>,
    indices: Vec<u16>,
}

/// Index of a tool that is not visible.
const HIDDEN: u16 = 0;

/// Number of recent residuals that are searched before a new one is added.
const RESIDUAL_SEARCH_MAX: usize = 64;

impl ResidualTableBuilder {
    pub(super) fn push_residual(&mut self, residual: Option<ResidualPolicy>) {
        let index = residual.map_or(HIDDEN, |residual| self.index_of(residual));
        self.indices.push(index);
    }

    /// Pushes a chunk of another table. `known` are the indices that its kinds have here.
    pub(super) fn push_chunk(
        &mut self,
        table: &ResidualTable,
        chunk: &ResidualChunk,
        known: &mut FastMap<u16, u16>,
    ) {
        for kind in chunk {
            let index = *known.entry(*kind).or_insert_with(|| {
                table.kind_at(*kind).map_or(HIDDEN, |residual| self.index_of(residual.clone()))
            });
            self.indices.push(index);
        }
    }

    /// Returns the index of a residual, counted from one.
    fn index_of(&mut self, residual: ResidualPolicy) -> u16 {
        let last = self.distinct_residuals.iter().enumerate().rev().take(RESIDUAL_SEARCH_MAX);
        let known = last.into_iter().find(|(_, kind)| **kind == residual).map(|(at, _)| at);
        let at = known.unwrap_or_else(|| {
            self.distinct_residuals.push(residual);
            self.distinct_residuals.len() - 1
        });
        // If there are more than can be indexed, the tool is hidden.
        u16::try_from(at + 1).unwrap_or(HIDDEN)
    }
}

/// Parts shared by the views of snapshots with one policy. A part that is not remembered is only
/// stored twice.
#[derive(Debug, Default)]
pub(super) struct ResidualInterner {
    interned: Mutex<InternedParts>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct InternedParts {
    chunks: HashSet<Arc<ResidualChunk>>,
    lists: HashSet<Arc<[ResidualPolicy]>>,
    /// Source views by the address of the merged source that they hold, and the hash of their parts.
    source_views: HashMap<usize, HashMap<u64, Arc<SourceView>>>,
    source_view_count: usize,
}

impl ResidualInterner {
    /// Builds the table from shared parts where possible.
    pub(super) fn build_table(&self, builder: ResidualTableBuilder) -> ResidualTable {
        let ResidualTableBuilder { distinct_residuals: kinds, indices: of } = builder;
        // Residuals are sorted by hash, so that views with equal sets have equal indices.
        let mut order: Vec<_> = kinds.into_iter().zip(1_usize..).collect();
        order.sort_by_cached_key(|(kind, _)| self.hasher.hash_one(kind));
        let mut now = vec![0_u16; order.len() + 1];
        for ((_, before), place) in order.iter().zip(1..=u16::MAX) {
            if let Some(at) = now.get_mut(*before) {
                *at = place;
            }
        }
        let kinds: Vec<_> = order.into_iter().map(|(kind, _)| kind).collect();
        let now = |before: &u16| now.get(usize::from(*before)).copied().unwrap_or(0);
        let mut run = Vec::with_capacity(of.len().min(CHUNK_TOOLS));
        let mut kept = self.lock_interned();
        let runs = of.chunks(CHUNK_TOOLS).map(|part| {
            run.clear();
            run.extend(part.iter().map(now));
            kept.intern_chunk(&run)
        });
        let runs = runs.collect();
        ResidualTable { distinct_residuals: kept.intern_list(kinds), chunks: runs }
    }

    /// Returns the source view, or an equal one of another view.
    pub(super) fn intern_source_view(&self, view: Arc<SourceView>) -> Arc<SourceView> {
        let hash = view.parts_hash(&self.hasher);
        let mut kept = self.lock_interned();
        if kept.source_view_count >= MAX_SOURCE_VIEWS {
            (kept.source_views, kept.source_view_count) = (HashMap::new(), 0);
        }
        let known = kept.source_views.entry(Arc::as_ptr(view.merged_source()).addr()).or_default();
        if let Some(same) = known.get(&hash).filter(|same| same.shares_parts_with(&view)) {
            return Arc::clone(same);
        }
        if known.insert(hash, Arc::clone(&view)).is_none() {
            kept.source_view_count += 1;
        }
        view
    }

    /// Forgets the source views of merged sources that a catalog does not have.
    pub(super) fn retain_sources(&self, catalog: &Catalog) {
        let sources = catalog.merged_sources().iter().flatten();
        let live: HashSet<usize> = sources.map(|source| Arc::as_ptr(source).addr()).collect();
        let mut kept = self.lock_interned();
        kept.source_views.retain(|source, _| live.contains(source));
        kept.source_view_count = kept.source_views.values().map(HashMap::len).sum();
    }

    fn lock_interned(&self) -> MutexGuard<'_, InternedParts> {
        self.interned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InternedParts {
    fn intern_chunk(&mut self, run: &ResidualChunk) -> Arc<ResidualChunk> {
        if let Some(known) = self.chunks.get(run) {
            return Arc::clone(known);
        }
        let run: Arc<ResidualChunk> = run.into();
        if self.chunks.len() >= MAX_CHUNKS {
            self.chunks.clear();
        }
        self.chunks.insert(Arc::clone(&run));
        run
    }

    fn intern_list(&mut self, kinds: Vec<ResidualPolicy>) -> Arc<[ResidualPolicy]> {
        if let Some(known) = self.lists.get(kinds.as_slice()) {
            return Arc::clone(known);
        }
        let kinds: Arc<[ResidualPolicy]> = kinds.into();
        if self.lists.len() >= MAX_LISTS {
            self.lists.clear();
        }
        self.lists.insert(Arc::clone(&kinds));
        kinds
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use policy::{DecisionReason, ResidualPolicy};

    use super::{CHUNK_TOOLS, ResidualInterner, ResidualTable, ResidualTableBuilder};

    fn left(hold: Option<DecisionReason>) -> ResidualPolicy {
        let mut left = ResidualPolicy::default();
        left.approval_reason = hold;
        left
    }

    /// What is left of so many tools: every third is hidden, every fifth is held.
    fn built(shared: &ResidualInterner, tools: usize, hidden: usize) -> ResidualTable {
        let mut building = ResidualTableBuilder::default();
        for at in 0..tools {
            let held = (at % 5 == 0).then_some(DecisionReason::Dangerous);
            building.push_residual((at % 3 != 0 && at != hidden).then(|| left(held)));
        }
        shared.build_table(building)
    }

    #[test]
    fn each_tool_has_what_was_left_of_it() {
        let shared = ResidualInterner::default();
        for tools in [0, 1, CHUNK_TOOLS, CHUNK_TOOLS + 1, 1_000] {
            let found = built(&shared, tools, 7);
            assert_eq!(
                found.visible_tools(0).take(tools).filter(|seen| *seen).count(),
                (0..tools).filter(|at| at % 3 != 0 && *at != 7).count()
            );
            for from in [1, 7, CHUNK_TOOLS - 1, CHUNK_TOOLS, 999, 5_000] {
                let whole: Vec<_> = found.visible_tools(0).skip(from).collect();
                assert_eq!(found.visible_tools(from).collect::<Vec<_>>(), whole, "from {from} on");
            }
            for at in 0..tools {
                let hold = found.residual_at(at).map(|residual| residual.approval_reason);
                let held = (at % 5 == 0).then_some(DecisionReason::Dangerous);
                assert_eq!(hold, (at % 3 != 0 && at != 7).then_some(held), "{at} of {tools}");
            }
            assert!(found.residual_at(tools).is_none(), "behind the last there is nothing");
        }
    }

    #[test]
    fn views_share_what_is_the_same_in_them() {
        let shared = ResidualInterner::default();
        let (one, other) = (built(&shared, 2_000, 7), built(&shared, 2_000, 1_999));
        let same = one.chunks.iter().zip(&other.chunks).filter(|(a, b)| Arc::ptr_eq(a, b)).count();
        assert_eq!((one.chunks.len(), same), (8, 6), "all but the first and the last");
        assert!(Arc::ptr_eq(&one.distinct_residuals, &other.distinct_residuals));
    }

    #[test]
    fn kinds_are_counted_the_same_whichever_comes_first() {
        let shared = ResidualInterner::default();
        let settle = |first: usize| {
            let mut building = ResidualTableBuilder::default();
            // The first tool is another for each, and of another kind.
            building.push_residual((first == 0).then(|| left(None)));
            (0..CHUNK_TOOLS).for_each(|at| {
                building.push_residual(Some(left(
                    (at % 2 == first).then_some(DecisionReason::Dangerous),
                )));
            });
            shared.build_table(building)
        };
        let (one, other) = (settle(0), settle(1));
        assert!(Arc::ptr_eq(&one.distinct_residuals, &other.distinct_residuals));
    }

    #[test]
    fn more_kinds_than_can_be_counted_hide_the_tool() {
        let kinds = vec![left(None); usize::from(u16::MAX)];
        let mut building =
            ResidualTableBuilder { distinct_residuals: kinds, ..ResidualTableBuilder::default() };
        building.push_residual(Some(left(Some(DecisionReason::Dangerous))));
        assert!(ResidualInterner::default().build_table(building).residual_at(0).is_none());
    }
}
