//! Tool search: ranks the tools of one view for the words of a task.
//!
//! [`AnalyzedTool`] holds what search needs of one definition and is made once per definition;
//! [`SearchIndex`] holds the statistics of exactly the tools it was built from, so a tool outside a
//! view changes no result, score or correction of that view. Two tiers rank: words (BM25F) and the
//! built-in word vectors. [`pack_results`] fits definitions into a budget of tokens. Pure: no I/O,
//! no task, no clock.

mod analyzed_tool;
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
mod tier_mixing;
mod tokenization;

pub use analyzed_tool::{AnalyzedTool, SearchField, ToolText};
pub use quantized_vector::{QuantizedVector, VectorTable};
pub use ranking_weights::{FieldWeight, RankingWeights, USUAL_TERMS};
pub use result_packing::{
    DefinitionForm, PackedTool, PackingBudget, compact_definition, count_tokens,
    deferred_definition, full_definition, pack_results,
};
pub use search_index::SearchIndex;
pub use search_ranking::{SearchHit, SentenceVectors, TermMatch};
pub use sentence_tier::{MAX_QUERY_TEXTS, QueryVectors, query_texts, sentence_text};

/// Maximum number of queries in one request.
pub const MAX_QUERIES: usize = 16;
/// Maximum size of one query in bytes; the rest of a longer one is not read.
pub const MAX_QUERY_BYTES: usize = 4_096;
/// Maximum number of results of one request.
pub const MAX_RESULTS: usize = 100;

#[cfg(test)]
mod tests;
