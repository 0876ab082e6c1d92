//! Segments of the indexes of views: runs of neighbouring tools, each indexed once and shared by all
//! views that have it.
//!
//! A run begins at a tool that the hash of its address selects, so that a changed tool changes its own
//! run and at most those beside it, wherever tools are added or hidden before it.

use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use catalog::CatalogEntry;
use search::{IndexSegment, VectorTable};
use tool::{FastHashState, FastMap};

use super::SentenceVectors;
use super::sentence_vectors::TextDigest;
use super::tool_analysis::AnalyzedTools;

/// Factor of the hash of a run, an odd number.
const HASH_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Numbers of tools in a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunSizes {
    /// The mean, unless tools are fewer.
    pub(super) mean: usize,
    /// The maximum.
    pub(super) max: usize,
}

impl Default for RunSizes {
    /// Larger runs make a change dearer, some microseconds a tool; smaller ones a search, which visits each.
    fn default() -> Self {
        Self { mean: 1_024, max: 4_096 }
    }
}

/// A run of tools with its index.
#[derive(Debug)]
pub(super) struct ViewSegment {
    pub(super) tools: Box<[Arc<CatalogEntry>]>,
    pub(super) index: Arc<IndexSegment>,
    /// Digests of the tools' texts, if there is a sentence model.
    digests: Box<[TextDigest]>,
    /// Vectors of the tools by the sentence model, with the generation in which they were read.
    sentences: Mutex<Option<(u64, Arc<VectorTable>)>>,
    memory: MemoryShare,
}

impl ViewSegment {
    fn new(tools: &[&Arc<CatalogEntry>], analyzed: &AnalyzedTools, memory: MemoryShare) -> Self {
        let (of_tools, digests): (Vec<_>, Vec<_>) =
            tools.iter().map(|entry| analyzed.analyze(entry)).unzip();
        let index = Arc::new(IndexSegment::build(&of_tools));
        let tools: Box<[_]> = tools.iter().map(|entry| Arc::clone(entry)).collect();
        let digests: Box<[_]> = digests.into_iter().flatten().collect();
        let own = size_of::<Self>() + size_of_val(&*tools) + size_of_val(&*digests);
        memory.add(own + index.memory_bytes());
        Self { tools, index, digests, sentences: Mutex::default(), memory }
    }

    fn has_tools(&self, tools: &[&Arc<CatalogEntry>]) -> bool {
        self.tools.len() == tools.len()
            && self.tools.iter().zip(tools).all(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// Returns the vectors of its tools. Those of tools without one are read again if there are more since.
    pub(super) fn sentence_table(&self, vectors: &SentenceVectors) -> Arc<VectorTable> {
        let lock = || self.sentences.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = vectors.generation();
        if let Some((read, table)) = &*lock()
            && (*read == generation || table.is_complete())
        {
            return Arc::clone(table);
        }
        let table = Arc::new(vectors.table_of(&self.digests));
        self.memory.add(table.memory_bytes());
        if let Some((_, before)) = lock().replace((generation, Arc::clone(&table))) {
            self.memory.subtract(before.memory_bytes());
        }
        table
    }
}

/// Memory that one segment adds to that of all, until it is dropped.
#[derive(Debug)]
struct MemoryShare {
    all: Arc<AtomicUsize>,
    own: AtomicUsize,
}

impl MemoryShare {
    fn add(&self, bytes: usize) {
        self.own.fetch_add(bytes, Ordering::Relaxed);
        self.all.fetch_add(bytes, Ordering::Relaxed);
    }

    fn subtract(&self, bytes: usize) {
        self.own.fetch_sub(bytes, Ordering::Relaxed);
        self.all.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.all.fetch_sub(*self.own.get_mut(), Ordering::Relaxed);
    }
}

/// Segments of all cached views. It keeps none: a segment lives as long as a view has it.
#[derive(Debug, Default)]
pub(super) struct SharedSegments {
    sizes: RunSizes,
    hash_state: FastHashState,
    /// Segments by the hash of the addresses of their tools.
    known: Mutex<FastMap<u64, Weak<ViewSegment>>>,
    bytes: Arc<AtomicUsize>,
    /// Number of tools that were indexed.
    indexed_tools: AtomicUsize,
}

impl SharedSegments {
    /// Creates an empty set with other sizes than the default.
    #[cfg(test)]
    pub(super) fn with_sizes(sizes: RunSizes) -> Self {
        Self { sizes, ..Self::default() }
    }

    /// Returns the memory of all segments, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of tools that were indexed so far.
    pub(super) fn indexed_tools(&self) -> usize {
        self.indexed_tools.load(Ordering::Relaxed)
    }

    /// Returns the segments of tools in their order. Those whose tools are no part of a cached view are
    /// built.
    pub(super) fn segments_of<'a>(
        &self,
        tools: impl Iterator<Item = &'a Arc<CatalogEntry>>,
        analyzed: &AnalyzedTools,
    ) -> Vec<Arc<ViewSegment>> {
        let (mut segments, mut run) = (Vec::new(), Vec::with_capacity(self.sizes.max));
        let first_hash = u64::MAX / self.sizes.mean as u64;
        let mut run_hash = 0_u64;
        for entry in tools {
            let hash = self.hash_state.hash_one(Arc::as_ptr(entry).addr());
            if run.len() >= self.sizes.max || (hash < first_hash && !run.is_empty()) {
                segments.push(self.segment_of(run_hash, &run, analyzed));
                run.clear();
                run_hash = 0;
            }
            run_hash = run_hash.rotate_left(5).wrapping_add(hash).wrapping_mul(HASH_FACTOR);
            run.push(entry);
        }
        if !run.is_empty() {
            segments.push(self.segment_of(run_hash, &run, analyzed));
        }
        self.lock_known().retain(|_, segment| segment.strong_count() > 0);
        segments
    }

    fn lock_known(&self) -> MutexGuard<'_, FastMap<u64, Weak<ViewSegment>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the segment of a run, from another view if one has it.
    fn segment_of(
        &self,
        hash: u64,
        run: &[&Arc<CatalogEntry>],
        analyzed: &AnalyzedTools,
    ) -> Arc<ViewSegment> {
        let known = self.lock_known().get(&hash).and_then(Weak::upgrade);
        if let Some(known) = known.filter(|known| known.has_tools(run)) {
            return known;
        }
        let memory = MemoryShare { all: Arc::clone(&self.bytes), own: AtomicUsize::new(0) };
        let segment = Arc::new(ViewSegment::new(run, analyzed, memory));
        self.indexed_tools.fetch_add(run.len(), Ordering::Relaxed);
        self.lock_known().insert(hash, Arc::downgrade(&segment));
        segment
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use catalog::CatalogEntry;
    use serde_json::json;
    use testkit::executor::echo_executor;
    use tool::{Org, SourceName};

    use super::{AnalyzedTools, RunSizes, SharedSegments, ViewSegment};

    const TOOLS: usize = 3_000;
    const SIZES: RunSizes = RunSizes { mean: 32, max: 128 };

    fn entry(number: usize, edition: usize) -> Arc<CatalogEntry> {
        let (name, text) = (format!("tool_{number}"), format!("Edition {edition}."));
        let tool = testkit::read_only_tool(&name, &text, &json!({"type": "object"}));
        let source = SourceName::new("office").unwrap();
        let entry = CatalogEntry::new(Org::default(), source, Arc::new(tool), echo_executor());
        Arc::new(entry.unwrap())
    }

    /// Segments of tools that change.
    struct Fixture {
        tools: Vec<Arc<CatalogEntry>>,
        shared: SharedSegments,
        analyzed: AnalyzedTools,
    }

    impl Fixture {
        fn new() -> Self {
            let tools = (0..TOOLS).map(|number| entry(number, 0)).collect();
            let (shared, analyzed) = (SharedSegments::with_sizes(SIZES), AnalyzedTools::new(false));
            Self { tools, shared, analyzed }
        }

        /// Returns the segments of the tools that a caller may see, and how many tools they indexed.
        fn segments(&self, sees: impl Fn(usize) -> bool) -> (Vec<Arc<ViewSegment>>, usize) {
            let before = self.shared.indexed_tools();
            let visible = self.tools.iter().enumerate().filter(|(at, _)| sees(*at));
            let visible = visible.map(|(_, entry)| entry);
            let segments = self.shared.segments_of(visible.clone(), &self.analyzed);
            let indexed = segments.iter().flat_map(|segment| &segment.tools);
            assert!(indexed.eq_by_address(visible), "the segments have the visible tools in order");
            assert!(segments.iter().all(|it| (1..=SIZES.max).contains(&it.tools.len())));
            (segments, self.shared.indexed_tools() - before)
        }
    }

    /// Comparison of tools by their addresses.
    trait EqByAddress<'a>: Iterator<Item = &'a Arc<CatalogEntry>> + Sized {
        fn eq_by_address(self, other: impl Iterator<Item = &'a Arc<CatalogEntry>>) -> bool {
            self.map(Arc::as_ptr).eq(other.map(Arc::as_ptr))
        }
    }

    impl<'a, I: Iterator<Item = &'a Arc<CatalogEntry>>> EqByAddress<'a> for I {}

    #[test]
    fn a_change_indexes_the_tools_beside_it_alone() {
        let mut fixture = Fixture::new();
        let (mut current, first) = fixture.segments(|_| true);
        assert_eq!(first, TOOLS, "the first time, all are indexed");
        assert_eq!(fixture.segments(|_| true).1, 0, "what is known is not indexed again");
        let mut indexed = 0;
        let changes = 60;
        for change in 0..changes {
            let place = change * 37 % fixture.tools.len();
            match change % 3 {
                0 => fixture.tools[place] = entry(place, change),
                1 => fixture.tools.insert(place, entry(TOOLS + change, 0)),
                _ => drop(fixture.tools.remove(place)),
            }
            let (next, new) = fixture.segments(|_| true);
            indexed += new;
            current = next;
        }
        // Twice the mean for the run of the tool, and sometimes those beside it.
        assert!(indexed < changes * 16 * SIZES.mean, "{indexed} tools for {changes} changes");
        assert!(indexed >= changes, "the control: a change indexes something");
        drop(current);
    }

    #[test]
    fn views_share_the_segments_whose_tools_both_have() {
        let fixture = Fixture::new();
        let (all, _) = fixture.segments(|_| true);
        let bytes = fixture.shared.memory_bytes();
        let (same, indexed) = fixture.segments(|_| true);
        assert_eq!((indexed, fixture.shared.memory_bytes()), (0, bytes));
        assert!(all.iter().zip(&same).all(|(one, other)| Arc::ptr_eq(one, other)));
        let (other, indexed) = fixture.segments(|at| at != 1_500);
        let shared = other.iter().filter(|it| all.iter().any(|one| Arc::ptr_eq(one, it))).count();
        assert!(shared + 4 >= all.len() && indexed <= 4 * SIZES.max, "{shared} of {}", all.len());
        assert!(indexed > 0 && fixture.shared.memory_bytes() > bytes);
        // A view of every other tool shares nothing but a run of one tool, which may begin and end by chance.
        let (half, indexed) = fixture.segments(|at| at.is_multiple_of(2));
        let is_new = |it: &Arc<ViewSegment>| !all.iter().any(|one| Arc::ptr_eq(one, it));
        assert!(half.iter().all(|it| it.tools.len() == 1 || is_new(it)));
        assert!(indexed > TOOLS / 4, "{indexed}");
        drop((same, other, half));
        assert_eq!(fixture.shared.memory_bytes(), bytes, "what no view has is released");
        drop(all);
        assert_eq!(fixture.shared.memory_bytes(), 0);
    }

    #[test]
    fn tools_at_the_same_address_as_former_ones_are_not_taken_for_them() {
        let fixture = Fixture::new();
        let (segments, _) = fixture.segments(|_| true);
        // A segment holds its tools, so no other tool has their addresses while it is known.
        let held = segments.iter().flat_map(|segment| &segment.tools).map(Arc::strong_count);
        assert!(held.min() > Some(1));
        let first: Vec<&Arc<CatalogEntry>> = segments[0].tools.iter().collect();
        assert!(segments[0].has_tools(&first) && !segments[0].has_tools(&first[1..]));
        let copy = entry(0, 0);
        let changed: Vec<_> = [&copy].into_iter().chain(first[1..].iter().copied()).collect();
        assert!(!segments[0].has_tools(&changed));
    }
}
