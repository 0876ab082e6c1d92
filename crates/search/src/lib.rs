//! Tool search: ranks the tools of one view for the words of a task.
//!
//! [`AnalyzedTool`] holds what search needs of one definition and is made once per definition;
//! [`IndexSegment`] indexes neighbouring tools and is shared by all views that have them;
//! [`SearchIndex`] joins the segments of one view. Its statistics are those of exactly these tools, so a
//! tool outside a view changes no result, score or correction of that view. Words (BM25F), the
//! built-in word vectors and a sentence model rank, and [`LearnedTerms`] raise tools that were called after the same
//! words. [`pack_results`] fits definitions into a budget of tokens. Pure: no I/O, no task, no clock.

mod analyzed_tool;
mod field_counts;
mod field_scales;
mod index_segment;
mod learned_evidence;
mod learned_tier;
mod lexical_score;
mod name_vocabulary;
mod quantized_vector;
mod query_terms;
mod ranking_weights;
mod result_packing;
mod schema_text;
mod search_index;
mod search_ranking;
mod sentence_tier;
mod stop_words;
mod term_postings;
mod tier_mixing;
mod tokenization;
mod vector_table;

pub use analyzed_tool::{AnalyzedTool, SearchField, ToolText};
pub use index_segment::IndexSegment;
pub use learned_evidence::{
    CallerHashes, MAX_EVIDENCE_DAYS, MAX_QUERY_STEMS, MAX_STEM_CALLERS, MAX_STEM_TOOLS,
    MAX_TOOL_STEMS, MIN_IDLE_DAYS, StemEvidence, ToolEvidence,
};
pub use learned_tier::{LearnedTerms, LearnedTool, query_stems};
pub use quantized_vector::QuantizedVector;
pub use ranking_weights::{FieldWeight, RankingWeights, USUAL_TERMS};
pub use result_packing::{
    DefinitionForm, PackedTool, PackingBudget, compact_definition, count_tokens,
    deferred_definition, full_definition, pack_results,
};
pub use search_index::SearchIndex;
pub use search_ranking::{RankingInputs, SearchHit, SentenceVectors, TermMatch};
pub use sentence_tier::{MAX_QUERY_TEXTS, QueryVectors, query_texts, sentence_text};
pub use vector_table::VectorTable;

/// Maximum number of queries in one request.
pub const MAX_QUERIES: usize = 16;
/// Maximum size of one query in bytes; the rest of a longer one is not read.
pub const MAX_QUERY_BYTES: usize = 4_096;
/// Maximum number of results of one request.
pub const MAX_RESULTS: usize = 100;

#[cfg(test)]
mod tests;
