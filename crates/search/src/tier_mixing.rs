//! Mixes both tiers for one query: words and word vectors.

use crate::query_terms::QueryTerms;
use crate::ranking_weights::USUAL_TERMS;
use crate::search_index::SearchIndex;
use crate::vector_score::WordVector;

/// Maximum number of clauses with a vector of their own; each costs as much as the whole query's.
const MAX_CLAUSE_VECTORS: usize = 4;
/// Minimum number of words of such a clause.
const MIN_CLAUSE_WORDS: usize = 2;

impl SearchIndex {
    /// Adds the cosines of the word vectors to the scores of the words, which are 0 to 1 or empty.
    /// Words of a long query say more than its meaning as a whole, so the vectors count less there.
    pub(crate) fn mix_tiers(&self, query: &str, terms: &QueryTerms, lexical: Vec<f32>) -> Vec<f32> {
        if !self.weights.uses_vectors() || terms.terms.is_empty() {
            return lexical;
        }
        let Some(vector) = WordVector::of_text(query) else { return lexical };
        let mut cosines = self.vectors.cosines(&vector);
        self.raise_to_clauses(terms, &mut cosines);
        let best = cosines.iter().copied().fold(f32::MIN, f32::max);
        let mean = mean(&cosines);
        if best <= mean {
            return lexical;
        }
        let length = small_number(terms.terms.len()) / USUAL_TERMS;
        let weight = self.weights.vector_weight * length.powf(-self.weights.vector_decline);
        let scale = weight / (best - mean);
        let added = cosines.into_iter().map(|cosine| (cosine - mean) * scale);
        if lexical.is_empty() {
            return added.collect();
        }
        lexical.into_iter().zip(added).map(|(lexical, added)| lexical + added).collect()
    }

    /// Raises each cosine to that of the clause that is nearest to the tool.
    fn raise_to_clauses(&self, terms: &QueryTerms, cosines: &mut [f32]) {
        let weight = self.weights.clause_vector_weight;
        if terms.clauses < 2 || weight <= 0.0 {
            return;
        }
        let words = |clause: u32| {
            let of_clause = terms.terms.iter().filter(move |it| it.clauses & (1 << clause) != 0);
            of_clause.map(|it| it.word.as_str()).collect::<Vec<_>>()
        };
        let clauses = (0..terms.clauses).map(words).filter(|it| it.len() >= MIN_CLAUSE_WORDS);
        for words in clauses.take(MAX_CLAUSE_VECTORS) {
            let Some(vector) = WordVector::of_text(&words.join(" ")) else { continue };
            for (cosine, of_clause) in cosines.iter_mut().zip(self.vectors.cosines(&vector)) {
                *cosine = cosine.max(of_clause * weight);
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "at most a few hundred")]
fn small_number(number: usize) -> f32 {
    number as f32
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "a mean of numbers of this precision"
)]
fn mean(numbers: &[f32]) -> f32 {
    let sum: f64 = numbers.iter().map(|x| f64::from(*x)).sum();
    (sum / numbers.len().max(1) as f64) as f32
}
