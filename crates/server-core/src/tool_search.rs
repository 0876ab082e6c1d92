//! Search indexes of views, built on the first search of a view and cached with limits.
//!
//! An index holds the tools of one view and nothing of others. Analyzed tools are shared: a changed
//! catalog analyzes only what changed.

mod provider_search;
mod search_request;
mod search_tool;
mod sentence_vectors;
mod tool_deferral;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use catalog::CatalogEntry;
use gateway::CatalogView;
use search::{
    AnalyzedTool, QueryVectors, SearchHit, SearchIndex, ToolText, VectorTable, sentence_text,
};
pub use search::{count_tokens, deferred_definition};
use serde_json::Value;
use tool::{Tool, ToolKey, ToolName};

use crate::tool_lists::run_blocking_if_many_tools;
pub use provider_search::{DeferringList, MAX_SEARCHABLE_TOOLS, SearchAnswer, answer_search};
pub use search_request::{ParameterNames, SearchReply, SearchRequest};
pub use search_tool::{SEARCH_DESCRIPTION, search_parameters};
pub use sentence_vectors::{EmbeddingPurpose, SentenceModel, SentenceVectors};
use sentence_vectors::{TextDigest, digest_of};
pub use tool_deferral::ToolDeferral;

/// Maximum number of views with an index.
const MAX_VIEWS: usize = 64;
/// Maximum number of tools in all cached indexes together; the newest index is always kept.
const MAX_INDEXED_TOOLS: usize = 400_000;
/// Maximum number of analyzed tools; beyond it they are cleared.
const MAX_ANALYZED_TOOLS: usize = 250_000;

/// The index of one view with its tools.
#[derive(Debug)]
struct ViewIndex {
    tools: Vec<Arc<CatalogEntry>>,
    index: SearchIndex,
    /// Digests of the tools' texts, if there is a sentence model.
    digests: Vec<TextDigest>,
    /// Vectors of the tools by the sentence model, with their number.
    sentences: Mutex<Option<(u64, Arc<VectorTable>)>>,
}

/// A result of a search with its tool.
#[derive(Debug)]
struct FoundTool<'a> {
    entry: &'a Arc<CatalogEntry>,
    hit: SearchHit,
}

impl ViewIndex {
    /// Searches the tools of the view, the best first.
    fn search(
        &self,
        queries: &[String],
        limit: usize,
        sentences: Option<(&SentenceVectors, &[Option<QueryVectors>])>,
    ) -> Vec<FoundTool<'_>> {
        let hits = run_blocking_if_many_tools(self.tools.len(), || {
            let table = sentences.map(|(vectors, _)| self.sentence_table(vectors));
            let sentences = table.as_deref().zip(sentences);
            let sentences =
                sentences.map(|(tools, (_, queries))| search::SentenceVectors { tools, queries });
            self.index.search_with_sentences(queries, sentences, limit)
        });
        let found = |hit: SearchHit| Some(FoundTool { entry: self.tools.get(hit.position)?, hit });
        hits.into_iter().filter_map(found).collect()
    }

    /// Returns the vectors of its tools, made again if there are more since.
    fn sentence_table(&self, vectors: &SentenceVectors) -> Arc<VectorTable> {
        let lock = || self.sentences.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = vectors.generation();
        if let Some((made, table)) = &*lock()
            && *made == generation
        {
            return Arc::clone(table);
        }
        let table = Arc::new(vectors.table_of(&self.digests));
        *lock() = Some((generation, Arc::clone(&table)));
        table
    }
}

/// An analyzed tool with the definition that it was made of.
#[derive(Debug)]
struct AnalyzedEntry {
    tool: Arc<Tool>,
    analyzed: Arc<AnalyzedTool>,
    /// Digest of its text, if there is a sentence model.
    digest: Option<TextDigest>,
}

/// The index of a view, once a search built it.
type IndexCell = Arc<OnceLock<Arc<ViewIndex>>>;

/// Cache of search indexes.
#[derive(Debug, Default)]
pub struct SearchIndexCache {
    /// Analyzed tools by key and listed name.
    analyzed: Mutex<HashMap<(ToolKey, ToolName), AnalyzedEntry>>,
    /// Indexes by view id, the last used one at the end.
    indexes: Mutex<VecDeque<(u64, IndexCell)>>,
    /// Vectors of the sentence model, if one is installed.
    sentences: Option<Arc<SentenceVectors>>,
}

impl SearchIndexCache {
    /// Creates a cache without indexes.
    pub fn new(sentences: Option<Arc<SentenceVectors>>) -> Self {
        Self { sentences, ..Self::default() }
    }

    /// Returns the index of a view; the first search of a view builds it.
    fn index_of(&self, view: &CatalogView) -> Arc<ViewIndex> {
        let cell = self.cell_of(view.id);
        let index = cell.get_or_init(|| Arc::new(self.build_index(view)));
        self.evict_indexes();
        Arc::clone(index)
    }

    fn cell_of(&self, view: u64) -> IndexCell {
        let mut indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        let known = indexes.iter().position(|(id, _)| *id == view);
        let entry = known.and_then(|at| indexes.remove(at));
        let entry = entry.unwrap_or_else(|| (view, IndexCell::default()));
        let cell = Arc::clone(&entry.1);
        indexes.push_back(entry);
        cell
    }

    /// Drops the indexes that were not used for the longest time, down to the limits.
    fn evict_indexes(&self) {
        let mut indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        let size = |cell: &IndexCell| cell.get().map_or(0, |it| it.tools.len());
        let mut tools: usize = indexes.iter().map(|(_, cell)| size(cell)).sum();
        let mut dropped = Vec::new();
        while indexes.len() > 1 && (indexes.len() > MAX_VIEWS || tools > MAX_INDEXED_TOOLS) {
            if let Some((_, cell)) = indexes.pop_front() {
                tools -= size(&cell);
                dropped.push(cell);
            }
        }
        drop(indexes);
        if !dropped.is_empty() {
            gateway::drop_in_background(true, dropped);
        }
    }

    fn build_index(&self, view: &CatalogView) -> ViewIndex {
        let tools: Vec<Arc<CatalogEntry>> = view.list_tools().map(Arc::clone).collect();
        let build = || {
            let analyzed = tools.iter().map(|entry| self.analyze(entry));
            let (analyzed, digests): (Vec<_>, Vec<_>) = analyzed.unzip();
            (SearchIndex::build(analyzed), digests.into_iter().flatten().collect())
        };
        let (index, digests) = run_blocking_if_many_tools(tools.len(), build);
        ViewIndex { tools, index, digests, sentences: Mutex::default() }
    }

    /// Returns the analyzed tool of an entry, from the cache if its definition is unchanged.
    fn analyze(&self, entry: &CatalogEntry) -> (Arc<AnalyzedTool>, Option<TextDigest>) {
        let lock = || self.analyzed.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (entry.tool_key.clone(), entry.name.clone());
        let is_same = |tool: &Arc<Tool>| Arc::ptr_eq(tool, &entry.tool) || **tool == *entry.tool;
        if let Some(known) = lock().get(&key).filter(|known| is_same(&known.tool)) {
            return (Arc::clone(&known.analyzed), known.digest);
        }
        let schema = entry.tool.input_schema.to_value();
        let analyzed = Arc::new(tool_text(entry, Some(&schema), AnalyzedTool::from_text));
        let digest = self.sentences.is_some();
        let digest = digest.then(|| digest_of(&tool_text(entry, None, sentence_text)));
        let (tool, made) = (Arc::clone(&entry.tool), Arc::clone(&analyzed));
        let made = AnalyzedEntry { tool, analyzed: made, digest };
        let mut known = lock();
        if known.len() >= MAX_ANALYZED_TOOLS {
            known.clear();
        }
        known.insert(key, made);
        (analyzed, digest)
    }
}

/// Passes the texts of a tool to a function.
fn tool_text<T>(
    entry: &CatalogEntry,
    input_schema: Option<&Value>,
    read: impl FnOnce(&ToolText<'_>) -> T,
) -> T {
    let tool = &entry.tool;
    read(&ToolText {
        name: entry.name.as_str(),
        title: tool.title.as_deref(),
        description: &tool.description,
        input_schema,
        source: entry.tool_key.source.as_str(),
        source_description: "",
        categories: &tool.traits.categories,
    })
}
