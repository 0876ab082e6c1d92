//! The first tier: BM25F over the terms of a query, as a whole and by clause.

use crate::analyzed_tool::FieldLengths;
use crate::name_vocabulary::find_corrections;
use crate::query_terms::{QueryTerm, QueryTerms};
use crate::search_index::SearchIndex;
use crate::term_postings::Posting;
use crate::tokenization::{TermHash, stem_word};
use word_vectors::is_known_word;

/// A term of a query as an index has it.
#[derive(Debug)]
pub(crate) struct FoundTerm<'a> {
    pub(crate) term: TermHash,
    /// The word as the query has it.
    pub(crate) word: &'a str,
    /// The word of a name that was searched instead.
    pub(crate) correction: Option<String>,
    pub(crate) weight: f32,
    clauses: u32,
    postings: Vec<SegmentPostings<'a>>,
}

/// The postings of a term in one segment that has it.
#[derive(Debug)]
struct SegmentPostings<'a> {
    /// Position of the first tool of the segment.
    begin: usize,
    lengths: &'a [FieldLengths],
    postings: &'a [Posting],
}

impl SearchIndex {
    /// Looks the terms up. An unknown word is replaced by words of names that are nearly the same.
    pub(crate) fn find_terms<'a>(&'a self, query: &'a QueryTerms) -> Vec<FoundTerm<'a>> {
        let mut found = Vec::new();
        for it in &query.terms {
            let term = TermHash::of_term(&it.stem);
            let term = self.found_term(it, term, None, it.weight);
            if term.postings.is_empty() {
                self.correct_term(it, &mut found);
            } else {
                found.push(term);
            }
        }
        found
    }

    /// Adds corrections of a word that no tool has. A word of the language is no typing error.
    fn correct_term<'a>(&'a self, it: &'a QueryTerm, found: &mut Vec<FoundTerm<'a>>) {
        if is_known_word(&it.word) {
            return;
        }
        let vocabularies = self.segments.iter().map(|it| &it.segment.name_words);
        for word in find_corrections(vocabularies, &it.word) {
            let term = TermHash::of_term(&stem_word(word));
            let weight = it.weight * self.weights.correction_weight;
            found.push(self.found_term(it, term, Some(word.to_owned()), weight));
        }
    }

    fn found_term<'a>(
        &'a self,
        it: &'a QueryTerm,
        term: TermHash,
        correction: Option<String>,
        weight: f32,
    ) -> FoundTerm<'a> {
        let of_segments = self.segments.iter().map(|it| SegmentPostings {
            begin: it.begin,
            lengths: &it.segment.lengths,
            postings: it.segment.terms.postings_of(term),
        });
        let postings: Vec<_> = of_segments.filter(|it| !it.postings.is_empty()).collect();
        let tools = postings.iter().map(|it| it.postings.len()).sum();
        let weight = weight * self.rarity(tools);
        FoundTerm { term, word: &it.word, correction, weight, clauses: it.clauses, postings }
    }

    /// Scores all tools for the terms of a query, 0 to 1; empty if no tool has any of them.
    pub(crate) fn score_terms(&self, query: &QueryTerms, found: &[FoundTerm<'_>]) -> Vec<f32> {
        let mut total = vec![0.0_f32; self.len()];
        self.add_terms(found.iter(), &mut total);
        let best = largest(&total);
        if best <= 0.0 {
            return Vec::new();
        }
        for score in &mut total {
            *score /= best;
        }
        if query.clauses > 1 && self.weights.clause_weight > 0.0 {
            self.add_clauses(query.clauses, found, &mut total);
        }
        total
    }

    /// Adds the score of the clause that a tool matches best.
    fn add_clauses(&self, clauses: u32, found: &[FoundTerm<'_>], total: &mut [f32]) {
        let mut best = vec![0.0_f32; total.len()];
        let mut scores = vec![0.0_f32; total.len()];
        let of_clause =
            |clause: u32| found.iter().filter(move |it| it.clauses & (1 << clause) != 0);
        let mass = |clause: u32| of_clause(clause).map(|it| it.weight).sum::<f32>();
        let most = (0..clauses).map(mass).fold(0.0, f32::max);
        for clause in 0..clauses {
            self.add_terms(of_clause(clause), &mut scores);
            let top = largest(&scores);
            if top <= 0.0 {
                continue;
            }
            let share = (mass(clause) / most).sqrt() / top;
            for it in of_clause(clause).flat_map(|it| &it.postings) {
                let range = it.begin..it.begin + it.lengths.len();
                let places = best.get_mut(range.clone()).zip(scores.get_mut(range));
                let Some((best, scores)) = places else { continue };
                for posting in it.postings {
                    let place = posting.tool();
                    let place = best.get_mut(place).zip(scores.get_mut(place));
                    if let Some((best, score)) = place {
                        *best = best.max(*score * share);
                        *score = 0.0;
                    }
                }
            }
        }
        let weight = self.weights.clause_weight;
        for (total, best) in total.iter_mut().zip(best) {
            *total = (*total + weight * best) / (1.0 + weight);
        }
    }

    /// Adds the scores of terms to those of the tools that have them.
    fn add_terms<'a>(&self, terms: impl Iterator<Item = &'a FoundTerm<'a>>, scores: &mut [f32]) {
        for term in terms {
            for it in &term.postings {
                let scores = scores.get_mut(it.begin..it.begin + it.lengths.len());
                let scores = scores.unwrap_or_default();
                for posting in it.postings {
                    let tool = posting.tool();
                    if let Some((score, lengths)) = scores.get_mut(tool).zip(it.lengths.get(tool)) {
                        *score += term.weight * self.scales.frequency(posting.counts(), lengths);
                    }
                }
            }
        }
    }
}

/// Returns the largest of scores that are not negative; 0 of none.
pub(crate) fn largest(scores: &[f32]) -> f32 {
    // Several maxima side by side, so that one comparison does not wait for the one before.
    let mut lanes = [0.0_f32; 16];
    for chunk in scores.chunks(lanes.len()) {
        for (lane, score) in lanes.iter_mut().zip(chunk) {
            *lane = lane.max(*score);
        }
    }
    lanes.into_iter().fold(0.0, f32::max)
}
