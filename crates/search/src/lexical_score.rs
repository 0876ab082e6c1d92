//! The first tier: BM25F over the terms of a query, as a whole and by clause.

use crate::query_terms::{QueryTerm, QueryTerms};
use crate::search_index::{Posting, SearchIndex};
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
    postings: &'a [Posting],
}

impl SearchIndex {
    /// Looks the terms up. An unknown word is replaced by words of names that are nearly the same.
    pub(crate) fn find_terms<'a>(&'a self, query: &'a QueryTerms) -> Vec<FoundTerm<'a>> {
        let mut found = Vec::new();
        for it in &query.terms {
            let term = TermHash::of_term(&it.stem);
            let postings = self.postings_of(term);
            if postings.is_empty() {
                self.correct_term(it, &mut found);
            } else {
                found.push(self.found_term(it, term, None, it.weight));
            }
        }
        found
    }

    /// Adds corrections of a word that no tool has. A word of the language is no typing error.
    fn correct_term<'a>(&'a self, it: &'a QueryTerm, found: &mut Vec<FoundTerm<'a>>) {
        if is_known_word(&it.word) {
            return;
        }
        for word in self.name_words.corrections(&it.word) {
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
        let postings = self.postings_of(term);
        let weight = weight * self.rarity(postings.len());
        FoundTerm { term, word: &it.word, correction, weight, clauses: it.clauses, postings }
    }

    /// Scores all tools for the terms of a query, 0 to 1; empty if no tool has any of them.
    pub(crate) fn score_terms(&self, query: &QueryTerms, found: &[FoundTerm<'_>]) -> Vec<f32> {
        let mut total = vec![0.0_f32; self.len()];
        add_terms(found.iter(), &mut total);
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
            add_terms(of_clause(clause), &mut scores);
            let top = largest(&scores);
            if top <= 0.0 {
                continue;
            }
            let share = (mass(clause) / most).sqrt() / top;
            for posting in of_clause(clause).flat_map(|it| it.postings) {
                let place = posting.tool as usize;
                if let (Some(best), Some(score)) = (best.get_mut(place), scores.get_mut(place)) {
                    *best = best.max(*score * share);
                    *score = 0.0;
                }
            }
        }
        let weight = self.weights.clause_weight;
        for (total, best) in total.iter_mut().zip(best) {
            *total = (*total + weight * best) / (1.0 + weight);
        }
    }
}

fn add_terms<'a>(terms: impl Iterator<Item = &'a FoundTerm<'a>>, scores: &mut [f32]) {
    for term in terms {
        for posting in term.postings {
            if let Some(score) = scores.get_mut(posting.tool as usize) {
                *score += term.weight * posting.frequency;
            }
        }
    }
}

fn largest(scores: &[f32]) -> f32 {
    scores.iter().copied().fold(0.0, f32::max)
}
