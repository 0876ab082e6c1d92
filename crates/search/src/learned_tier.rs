//! Bonus of learned tools: those that were called after queries with the same words rank higher.
//!
//! The caller hashes [`query_stems`] and knows which tools of its view were called after them.

use crate::lexical_score::largest;
use crate::query_terms::QueryTerms;
use crate::ranking_weights::RankingWeights;
use crate::search_index::SearchIndex;
use crate::search_ranking::TermMatch;
use crate::tokenization::TermHash;
use crate::{MAX_QUERIES, MAX_QUERY_BYTES};

/// A tool that was called after queries with a stem.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LearnedTool {
    /// Position of the tool in its index.
    pub position: usize,
    /// Strength of the evidence, 0 to 1.
    pub strength: f32,
}

/// The learned tools of one query: for each of its [`query_stems`], in their order.
pub type LearnedTerms = Vec<Vec<LearnedTool>>;

/// Returns the stems of a query by which tools are searched, each once.
pub fn query_stems(query: &str) -> Vec<String> {
    let terms = QueryTerms::parse(readable_part(query), &RankingWeights::default());
    terms.terms.into_iter().map(|it| it.stem).collect()
}

/// Returns the beginning of a query that is read.
pub(crate) fn readable_part(query: &str) -> &str {
    query.get(..query.floor_char_boundary(MAX_QUERY_BYTES)).unwrap_or(query)
}

/// Returns the queries of a request that are read.
pub(crate) fn readable_queries<S: AsRef<str>>(queries: &[S]) -> impl Iterator<Item = &str> {
    queries.iter().take(MAX_QUERIES).map(|query| readable_part(query.as_ref()))
}

impl SearchIndex {
    /// Adds to the scores of learned tools at most a share of the best one: a bonus is the share of the
    /// query's words, by weight and rarity in the view, after which the tool was called.
    pub(crate) fn add_learned(
        &self,
        terms: &QueryTerms,
        learned: &LearnedTerms,
        mut scores: Vec<f32>,
    ) -> Vec<f32> {
        if learned.iter().all(Vec::is_empty) {
            return scores;
        }
        let weights = terms.terms.iter().map(|it| {
            let tools = self.tools_with(TermHash::of_term(&it.stem));
            it.weight * self.rarity(tools)
        });
        let weights: Vec<f32> = weights.collect();
        let all: f32 = weights.iter().sum();
        if all <= 0.0 {
            return scores;
        }
        let best = largest(&scores);
        let unit = if best > 0.0 { best } else { 1.0 } * self.weights.learned_weight / all;
        scores.resize(self.len(), 0.0);
        for (weight, tools) in weights.iter().zip(learned) {
            for tool in tools {
                if let Some(score) = scores.get_mut(tool.position) {
                    // Where vectors rank alone, a tool may lie below their mean.
                    *score = score.max(0.0) + unit * weight * tool.strength.clamp(0.0, 1.0);
                }
            }
        }
        scores
    }
}

/// Marks the words of a query after which a tool was called, and adds those that do not match otherwise.
pub(crate) fn explain_learned(
    position: usize,
    terms: &QueryTerms,
    learned: &LearnedTerms,
    matches: &mut Vec<TermMatch>,
) {
    let has_tool = |tools: &[LearnedTool]| {
        tools.iter().any(|tool| tool.position == position && tool.strength > 0.0)
    };
    let words = terms.terms.iter().zip(learned).filter(|(_, tools)| has_tool(tools));
    for (term, _) in words {
        let known = matches.iter_mut().find(|it| it.word == term.word && it.correction.is_none());
        if let Some(known) = known {
            known.is_learned = true;
            continue;
        }
        let (word, correction) = (term.word.clone(), None);
        matches.push(TermMatch { word, correction, fields: Vec::new(), is_learned: true });
    }
}
