//! Search indexes of views, joined on the first search of a view and cached with limits.
//!
//! An index holds the tools of one view and nothing of others. It consists of segments, which views
//! share: a changed catalog analyzes the tools that changed, and indexes those beside them.

mod provider_search;
mod search_learning;
mod search_request;
mod search_tool;
mod sentence_vectors;
mod tool_analysis;
mod tool_deferral;
mod tool_positions;
mod view_segments;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use catalog::CatalogEntry;
use gateway::CatalogView;
use search::{LearnedTerms, QueryVectors, RankingInputs, SearchHit, SearchIndex, VectorTable};
pub use search::{count_tokens, deferred_definition};

use crate::tool_lists::run_blocking_if_many_tools;
pub use provider_search::{DeferringList, MAX_SEARCHABLE_TOOLS, SearchAnswer, answer_search};
pub use search_learning::SearchLearning;
pub use search_request::{ParameterNames, SearchReply, SearchRequest};
pub use search_tool::{SEARCH_DESCRIPTION, search_parameters};
pub use sentence_vectors::{EmbeddingPurpose, SentenceModel, SentenceVectors};
use tool::ToolKey;
use tool_analysis::AnalyzedTools;
pub use tool_deferral::ToolDeferral;
use tool_positions::ToolPositions;
use view_segments::{SharedSegments, ViewSegment};

/// Maximum number of views with an index.
const MAX_VIEWS: usize = 64;
/// Maximum memory of all segments in bytes; the newest index is always kept.
const MAX_INDEX_BYTES: usize = 256 << 20;

/// The index of one view, with the tools of its segments.
#[derive(Debug)]
struct ViewIndex {
    segments: Vec<Arc<ViewSegment>>,
    index: SearchIndex,
    /// Positions of the tools by their keys, for what was learned.
    positions: OnceLock<ToolPositions>,
}

/// A result of a search with its tool.
#[derive(Debug)]
struct FoundTool<'a> {
    entry: &'a Arc<CatalogEntry>,
    hit: SearchHit,
}

impl ViewIndex {
    fn new(segments: Vec<Arc<ViewSegment>>) -> Self {
        let index = SearchIndex::from_segments(segments.iter().map(|it| Arc::clone(&it.index)));
        Self { segments, index, positions: OnceLock::new() }
    }

    /// Searches the tools of the view, the best first.
    fn search(
        &self,
        queries: &[String],
        limit: usize,
        sentences: Option<(&SentenceVectors, &[Option<QueryVectors>])>,
        learned: &[LearnedTerms],
    ) -> Vec<FoundTool<'_>> {
        let hits = run_blocking_if_many_tools(self.index.len(), || {
            let tables = sentences.map(|(vectors, _)| self.sentence_tables(vectors));
            let sentences = tables.as_deref().zip(sentences);
            let sentences =
                sentences.map(|(tools, (_, queries))| search::SentenceVectors { tools, queries });
            self.index.search_with(queries, RankingInputs { sentences, learned }, limit)
        });
        let found = |hit: SearchHit| Some(FoundTool { entry: self.entry_at(hit.position)?, hit });
        hits.into_iter().filter_map(found).collect()
    }

    fn entry_at(&self, position: usize) -> Option<&Arc<CatalogEntry>> {
        let (segment, tool) = self.index.locate_tool(position)?;
        self.segments.get(segment)?.tools.get(tool)
    }

    /// Returns the positions of tools by their keys; the first search that needs them builds them.
    fn tool_positions(&self) -> &ToolPositions {
        if let Some(positions) = self.positions.get() {
            return positions;
        }
        let tools = self.segments.iter().flat_map(|it| it.tools.iter());
        let keys = tools.map(|entry| &entry.tool_key);
        run_blocking_if_many_tools(self.index.len(), || {
            self.positions.get_or_init(|| ToolPositions::new(keys))
        })
    }

    /// Returns the position of a tool; `None` if the view does not have it.
    fn position_of(&self, positions: &ToolPositions, tool: &ToolKey) -> Option<usize> {
        let is_tool = |at: &usize| self.entry_at(*at).is_some_and(|it| it.tool_key == *tool);
        positions.candidates(tool).find(is_tool)
    }

    fn sentence_tables(&self, vectors: &SentenceVectors) -> Vec<Arc<VectorTable>> {
        self.segments.iter().map(|segment| segment.sentence_table(vectors)).collect()
    }
}

/// The index of a view, once a search built it.
type IndexCell = Arc<OnceLock<Arc<ViewIndex>>>;

/// Indexes by view id, the last used one at the end.
type CachedIndexes = VecDeque<(u64, IndexCell)>;

/// Cache of search indexes.
#[derive(Debug, Default)]
pub struct SearchIndexCache {
    analyzed: AnalyzedTools,
    segments: SharedSegments,
    indexes: Mutex<CachedIndexes>,
    /// Vectors of the sentence model, if one is installed.
    sentences: Option<Arc<SentenceVectors>>,
    /// What organisations learn, if any may.
    learning: Option<Arc<SearchLearning>>,
}

impl SearchIndexCache {
    /// Creates a cache without indexes.
    pub fn new(
        sentences: Option<Arc<SentenceVectors>>,
        learning: Option<Arc<SearchLearning>>,
    ) -> Self {
        let analyzed = AnalyzedTools::new(sentences.is_some());
        Self { analyzed, sentences, learning, ..Self::default() }
    }

    /// Creates a cache whose segments have few tools, so that small views have several.
    #[cfg(test)]
    pub(crate) fn with_small_segments() -> Self {
        let sizes = view_segments::RunSizes { mean: 4, max: 9 };
        Self { segments: SharedSegments::with_sizes(sizes), ..Self::default() }
    }

    /// Returns the number of tools that were indexed so far, for measurements.
    pub fn indexed_tools(&self) -> usize {
        self.segments.indexed_tools()
    }

    fn lock_indexes(&self) -> MutexGuard<'_, CachedIndexes> {
        self.indexes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the index of a view; the first search of a view builds it.
    fn index_of(&self, view: &CatalogView) -> Arc<ViewIndex> {
        let cell = self.cell_of(view.id);
        if let Some(index) = cell.get() {
            return Arc::clone(index);
        }
        run_blocking_if_many_tools(view.tool_count(), || {
            let build = || self.segments.segments_of(view.list_tools(), &self.analyzed);
            let index = cell.get_or_init(|| Arc::new(ViewIndex::new(build())));
            self.evict_indexes();
            Arc::clone(index)
        })
    }

    fn cell_of(&self, view: u64) -> IndexCell {
        let mut indexes = self.lock_indexes();
        let known = indexes.iter().position(|(id, _)| *id == view);
        let entry = known.and_then(|at| indexes.remove(at));
        let entry = entry.unwrap_or_else(|| (view, IndexCell::default()));
        let cell = Arc::clone(&entry.1);
        indexes.push_back(entry);
        cell
    }

    /// Drops the indexes that were not used for the longest time, down to the limits. Segments that other
    /// views have stay.
    fn evict_indexes(&self) {
        loop {
            let mut indexes = self.lock_indexes();
            let is_full =
                indexes.len() > MAX_VIEWS || self.segments.memory_bytes() > MAX_INDEX_BYTES;
            let oldest = (is_full && indexes.len() > 1).then(|| indexes.pop_front()).flatten();
            drop(indexes);
            if oldest.is_none() {
                return;
            }
            gateway::block_in_place_if(true, || drop(oldest));
        }
    }
}
