//! Mixes both tiers for one query: words and word vectors.

use crate::query_terms::QueryTerms;
use crate::ranking_weights::USUAL_TERMS;
use crate::search_index::SearchIndex;
use crate::vector_score::WordVector;
use word_vectors::is_known_word;

/// Maximum number of clauses with a vector of their own.
const MAX_CLAUSE_VECTORS: usize = 4;
/// Minimum number of words of such a clause.
const MIN_CLAUSE_WORDS: usize = 2;
/// Maximum number of tools that are compared with clauses, the best ones for the whole query.
const MAX_CLAUSE_CANDIDATES: usize = 5_000;

impl SearchIndex {
    /// Adds the cosines of the word vectors to the scores of the words, which are 0 to 1 or empty.
    pub(crate) fn mix_tiers(&self, query: &str, terms: &QueryTerms, lexical: Vec<f32>) -> Vec<f32> {
        if !self.weights.uses_vectors() || terms.terms.is_empty() {
            return lexical;
        }
        // Where no tool has a word of the query, the vectors rank alone.
        let weight = if lexical.is_empty() { 1.0 } else { self.weight_of_vectors(terms) };
        if weight <= 0.0 {
            return lexical;
        }
        let Some(vector) = WordVector::of_text(query) else { return lexical };
        let mut cosines = self.vectors.cosines(&vector);
        let clauses = self.clause_vectors(terms);
        if !clauses.is_empty() {
            for position in self.clause_candidates(&lexical, &cosines) {
                let near = clauses.iter().map(|it| self.vectors.cosine_at(position, it));
                let near = near.fold(f32::MIN, f32::max) * self.weights.clause_vector_weight;
                if let Some(cosine) = cosines.get_mut(position) {
                    *cosine = cosine.max(near);
                }
            }
        }
        add_cosines(lexical, &cosines, weight)
    }

    /// Returns the weight of the vectors for a query. Words of a long query say more than its
    /// meaning as a whole; and where the vectors know few words, as of a CJK text, their mean says
    /// little.
    fn weight_of_vectors(&self, terms: &QueryTerms) -> f32 {
        let weights = &self.weights;
        let length = small_number(terms.terms.len()) / USUAL_TERMS;
        let known = known_share(terms).powf(weights.vector_unknown_decline);
        weights.vector_weight * length.powf(-weights.vector_decline) * known
    }

    /// Returns the vectors of the clauses, which raise the tools nearest to one of them.
    fn clause_vectors(&self, terms: &QueryTerms) -> Vec<WordVector> {
        if terms.clauses < 2 || self.weights.clause_vector_weight <= 0.0 {
            return Vec::new();
        }
        let words = |clause: u32| {
            let of_clause = terms.terms.iter().filter(move |it| it.clauses & (1 << clause) != 0);
            of_clause.map(|it| it.word.as_str()).collect::<Vec<_>>()
        };
        let clauses = (0..terms.clauses).map(words).filter(|it| it.len() >= MIN_CLAUSE_WORDS);
        let vectors = clauses.filter_map(|words| WordVector::of_text(&words.join(" ")));
        vectors.take(MAX_CLAUSE_VECTORS).collect()
    }

    /// Returns the tools that are compared with clauses: all, or the best ones of many.
    fn clause_candidates(&self, lexical: &[f32], cosines: &[f32]) -> Vec<usize> {
        let mut all: Vec<usize> = (0..cosines.len()).collect();
        if all.len() > MAX_CLAUSE_CANDIDATES {
            let mixed = add_cosines(lexical.to_vec(), cosines, self.weights.vector_weight);
            let score = |position: &usize| mixed.get(*position).copied().unwrap_or(0.0);
            all.select_nth_unstable_by(MAX_CLAUSE_CANDIDATES, |one, other| {
                score(other).total_cmp(&score(one)).then(one.cmp(other))
            });
            all.truncate(MAX_CLAUSE_CANDIDATES);
        }
        all
    }
}

/// Returns the share of a query's letters that are in words which the vectors know as a whole.
fn known_share(terms: &QueryTerms) -> f32 {
    let letters = |word: &str| word.chars().filter(|it| it.is_alphabetic()).count();
    let all: usize = terms.terms.iter().map(|it| letters(&it.word)).sum();
    let known = terms.terms.iter().filter(|it| is_known_word(&it.word));
    let known: usize = known.map(|it| letters(&it.word)).sum();
    if all == 0 { 1.0 } else { small_number(known) / small_number(all) }
}

/// Adds cosines, centred on their mean and scaled to their best one, to the scores of the words.
fn add_cosines(lexical: Vec<f32>, cosines: &[f32], weight: f32) -> Vec<f32> {
    let best = cosines.iter().copied().fold(f32::MIN, f32::max);
    let mean = mean(cosines);
    if best <= mean {
        return lexical;
    }
    let scale = weight / (best - mean);
    let added = cosines.iter().map(|cosine| (cosine - mean) * scale);
    if lexical.is_empty() {
        return added.collect();
    }
    lexical.into_iter().zip(added).map(|(lexical, added)| lexical + added).collect()
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
