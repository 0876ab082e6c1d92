//! The third tier: vectors of whole texts by a sentence model, which runs outside of this crate.
//!
//! The caller embeds [`sentence_text`] of each tool and [`query_texts`] of each query.

use crate::analyzed_tool::ToolText;
use crate::quantized_vector::QuantizedVector;
use crate::query_terms::QueryTerms;
use crate::ranking_weights::RankingWeights;
use crate::tier_mixing::{MAX_CLAUSE_VECTORS, MIN_CLAUSE_WORDS};

/// Maximum number of texts that one query is embedded as: itself, and its first clauses.
pub const MAX_QUERY_TEXTS: usize = 1 + MAX_CLAUSE_VECTORS;

/// Vectors of one query by a sentence model.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryVectors {
    /// Vector of the whole query.
    pub(crate) whole: QuantizedVector,
    /// Vectors of its clauses.
    pub(crate) clauses: Vec<QuantizedVector>,
}

impl QueryVectors {
    /// Creates the vectors of a query from those of its [`query_texts`], in their order.
    pub fn from_texts(vectors: impl IntoIterator<Item = QuantizedVector>) -> Option<Self> {
        let mut vectors = vectors.into_iter();
        Some(Self { whole: vectors.next()?, clauses: vectors.collect() })
    }
}

/// Returns the texts of a query that the model embeds: itself, and its clauses if it has several.
pub fn query_texts(query: &str) -> Vec<String> {
    let terms = QueryTerms::parse(query, &RankingWeights::default());
    let mut texts = vec![query.to_owned()];
    if terms.clauses > 1 {
        texts.extend(terms.clause_texts(MIN_CLAUSE_WORDS).into_iter().take(MAX_CLAUSE_VECTORS));
    }
    texts
}

/// Returns the text of a tool that the model embeds.
pub fn sentence_text(text: &ToolText<'_>) -> String {
    crate::analyzed_tool::vector_text(text)
}
