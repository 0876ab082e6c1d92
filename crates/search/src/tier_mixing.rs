//! Mixes both tiers for one query: words and word vectors.

use crate::quantized_vector::{QuantizedVector, mean, small_number};
use crate::query_terms::QueryTerms;
use crate::ranking_weights::USUAL_TERMS;
use crate::search_index::SearchIndex;
use crate::sentence_tier::QueryVectors;
use crate::vector_table::VectorTables;
use word_vectors::is_known_word;

/// Number of terms below which the sentence model gains no more weight: a query of one word may be a name.
const MIN_SENTENCE_TERMS: usize = 3;
/// Maximum number of clauses with a vector of their own.
pub(crate) const MAX_CLAUSE_VECTORS: usize = 4;
/// Minimum number of words of such a clause.
pub(crate) const MIN_CLAUSE_WORDS: usize = 2;
/// Maximum number of tools that are compared with clauses, the best ones for the whole query.
const MAX_CLAUSE_CANDIDATES: usize = 5_000;

/// A tier of vectors with those of one query.
struct VectorTier<'a> {
    tables: VectorTables<'a>,
    whole: QuantizedVector,
    clauses: Vec<QuantizedVector>,
    weight: f32,
}

impl SearchIndex {
    /// Adds the cosines of the vectors to the scores of the words, which are 0 to 1 or empty.
    pub(crate) fn mix_tiers(
        &self,
        (query, terms): (&str, &QueryTerms),
        lexical: Vec<f32>,
        sentence: Option<(VectorTables<'_>, &QueryVectors)>,
    ) -> Vec<f32> {
        if terms.terms.is_empty() {
            return lexical;
        }
        // Where no tool has a word of the query, the vectors rank alone.
        let alone = lexical.is_empty();
        let sentence = sentence.map(|(tables, vectors)| VectorTier {
            tables,
            whole: vectors.whole.clone(),
            clauses: vectors.clauses.clone(),
            weight: if alone { 1.0 } else { self.weight_of_sentences(terms) },
        });
        let word_weight = match (alone, &sentence) {
            (true, None) => 1.0,
            (_, None) => self.weight_of_vectors(terms),
            (_, Some(_)) => self.weight_of_vectors(terms) * self.weights.vector_share,
        };
        let words = self.word_tier(query, terms, word_weight);
        let tiers = [sentence, words].into_iter().flatten();
        tiers.fold(lexical, |scores, tier| self.add_tier(scores, &tier))
    }

    /// Returns the tier of the word vectors, if it counts.
    fn word_tier(&self, query: &str, terms: &QueryTerms, weight: f32) -> Option<VectorTier<'_>> {
        if !self.weights.uses_vectors() || weight <= 0.0 {
            return None;
        }
        let whole = QuantizedVector::of_words(query)?;
        Some(VectorTier {
            tables: self.segments.iter().map(|it| &it.segment.vectors).collect(),
            whole,
            clauses: self.clause_vectors(terms),
            weight,
        })
    }

    /// Adds the cosines of one tier, each of the query or of the clause that is nearest.
    fn add_tier(&self, scores: Vec<f32>, tier: &VectorTier<'_>) -> Vec<f32> {
        let mut cosines = tier.tables.cosines(&tier.whole);
        if !tier.clauses.is_empty() {
            for position in self.clause_candidates(&scores, &cosines) {
                let near = tier.clauses.iter().map(|it| tier.tables.cosine_at(position, it));
                let near = near.fold(f32::MIN, f32::max) * self.weights.clause_vector_weight;
                if let Some(cosine) = cosines.get_mut(position) {
                    *cosine = cosine.max(near);
                }
            }
        }
        add_cosines(scores, &cosines, tier.weight)
    }

    /// Returns the weight of the sentence model for a query.
    fn weight_of_sentences(&self, terms: &QueryTerms) -> f32 {
        let (weight, decline) = (self.weights.sentence_weight, self.weights.sentence_decline);
        let count = terms.terms.len().max(MIN_SENTENCE_TERMS);
        self.declining_weight(terms, count, (weight, decline))
    }

    /// Returns the weight of the word vectors for a query.
    fn weight_of_vectors(&self, terms: &QueryTerms) -> f32 {
        let (weight, decline) = (self.weights.vector_weight, self.weights.vector_decline);
        self.declining_weight(terms, terms.terms.len(), (weight, decline))
    }

    /// Returns the weight of vectors for a query of a number of terms. Words of a long query say more
    /// than its meaning as a whole; and where few words are known, as of a CJK text, their vectors say
    /// little.
    fn declining_weight(
        &self,
        terms: &QueryTerms,
        count: usize,
        (weight, decline): (f32, f32),
    ) -> f32 {
        let length = small_number(count) / USUAL_TERMS;
        let known = known_share(terms).powf(self.weights.vector_unknown_decline);
        weight * length.powf(-decline) * known
    }

    /// Returns the vectors of the clauses, which raise the tools nearest to one of them.
    fn clause_vectors(&self, terms: &QueryTerms) -> Vec<QuantizedVector> {
        if terms.clauses < 2 || self.weights.clause_vector_weight <= 0.0 {
            return Vec::new();
        }
        let vectors = terms.clause_texts(MIN_CLAUSE_WORDS);
        let vectors = vectors.iter().filter_map(|text| QuantizedVector::of_words(text));
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
