//! Weights of the ranking, chosen on development sets.

use crate::analyzed_tool::SearchField;

/// Weight of one field, and how much a long text in it loses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FieldWeight {
    /// Weight of an occurrence.
    pub weight: f32,
    /// Share of the length in the normalisation, 0 to 1: `b` of BM25.
    pub length_share: f32,
}

/// Number of terms of a query at which the word vectors have their plain weight.
pub const USUAL_TERMS: f32 = 8.0;

/// Weights of the ranking. The defaults were chosen on the development sets of `bench search`.
#[derive(Debug, Clone, PartialEq)]
pub struct RankingWeights {
    /// Weights of the fields, in the order of [`SearchField::ALL`].
    pub fields: [FieldWeight; SearchField::ALL.len()],
    /// Saturation of repeated terms: `k1` of BM25.
    pub saturation: f32,
    /// Exponent of the inverse document frequency.
    pub rarity_exponent: f32,
    /// Weight of a term without letters, such as an argument's value.
    pub number_weight: f32,
    /// Weight of a compound such as `github` beside its parts.
    pub compound_weight: f32,
    /// Weight of a corrected word.
    pub correction_weight: f32,
    /// Weight of the best clause of a query beside the whole query.
    pub clause_weight: f32,
    /// Weight of the word vectors beside the words of a query of [`USUAL_TERMS`] terms; 0 turns the
    /// tier off.
    pub vector_weight: f32,
    /// How much the word vectors lose with the length of a query: an exponent.
    pub vector_decline: f32,
    /// Share of that weight if a sentence model ranks too.
    pub vector_share: f32,
    /// Weight of the sentence model beside the words of a query of [`USUAL_TERMS`] terms.
    pub sentence_weight: f32,
    /// How much the sentence model loses with the length of a query: an exponent.
    pub sentence_decline: f32,
    /// How much the vectors lose with the share of a query's letters that are in words which
    /// they do not know as a whole: an exponent.
    pub vector_unknown_decline: f32,
    /// Weight of the vector of a clause beside that of the whole query, 0 to 1.
    pub clause_vector_weight: f32,
    /// Weight of what was learned, as a share of the best score: a tool for which the strongest evidence
    /// speaks at each word gains nearly this much.
    pub learned_weight: f32,
}

impl Default for RankingWeights {
    fn default() -> Self {
        let field = |weight, length_share| FieldWeight { weight, length_share };
        Self {
            fields: [
                field(6.0, 0.9),
                field(2.0, 0.5),
                field(1.0, 0.5),
                field(1.0, 0.5),
                field(0.45, 0.3),
                field(0.3, 0.5),
            ],
            saturation: 1.4,
            rarity_exponent: 1.0,
            number_weight: 0.5,
            compound_weight: 1.0,
            correction_weight: 0.6,
            clause_weight: 0.5,
            vector_weight: 0.7,
            vector_decline: 0.5,
            vector_share: 0.5,
            sentence_weight: 1.0,
            sentence_decline: 0.75,
            vector_unknown_decline: 0.5,
            clause_vector_weight: 0.9,
            learned_weight: 0.5,
        }
    }
}

impl RankingWeights {
    /// Returns the weights of the first tier alone.
    #[must_use]
    pub fn lexical_only(mut self) -> Self {
        self.vector_weight = 0.0;
        self
    }

    /// Whether the second tier ranks.
    pub(crate) fn uses_vectors(&self) -> bool {
        self.vector_weight > 0.0
    }
}
