//! Ranking of a request: tiers mixed per query, queries fused so that each gets its share.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use crate::MAX_RESULTS;
use crate::analyzed_tool::SearchField;
use crate::learned_tier::{LearnedTerms, explain_learned, readable_queries};
use crate::lexical_score::{FoundTerm, largest};
use crate::query_terms::QueryTerms;
use crate::search_index::SearchIndex;
use crate::sentence_tier::QueryVectors;
use crate::vector_table::VectorTable;

/// Lowest score of a result, as a share of the query's best one.
const MIN_SCORE: f32 = 0.02;

/// A word of a query that a tool matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TermMatch {
    /// The word as the query has it, in lower case.
    pub word: String,
    /// The word of a name that was searched instead, if the query's word is unknown.
    pub correction: Option<String>,
    /// Fields in which it occurs; empty if it only counts because it was learned.
    pub fields: Vec<SearchField>,
    /// Whether the tool was called after queries with this word.
    pub is_learned: bool,
}

/// A result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchHit {
    /// Position of the tool in its index.
    pub position: usize,
    /// Score among the results of its query, 0 to 1; 1 is the best.
    pub score: f32,
    /// Index of the query that found it.
    pub query: usize,
    /// Words that the tool matches; empty if only the word vectors found it.
    pub matches: Vec<TermMatch>,
}

/// Vectors of a sentence model: of the tools of an index, and of the queries of one request.
#[derive(Debug, Clone, Copy)]
pub struct SentenceVectors<'a> {
    /// Vectors of the tools, in the order of the index; in one table or several.
    pub tools: &'a [Arc<VectorTable>],
    /// Vectors of each query; `None` for one that has none.
    pub queries: &'a [Option<QueryVectors>],
}

/// Inputs of a ranking beside the words and the word vectors.
#[derive(Debug, Clone, Copy, Default)]
pub struct RankingInputs<'a> {
    /// Vectors of a sentence model.
    pub sentences: Option<SentenceVectors<'a>>,
    /// What was learned, for each query; queries beyond them have nothing.
    pub learned: &'a [LearnedTerms],
}

/// A position with its score.
#[derive(Debug, Clone, Copy, PartialEq)]
struct RankedTool {
    position: usize,
    score: f32,
}

impl RankedTool {
    /// Orders by score, then by the order of the index.
    fn compare(&self, other: &Self) -> Ordering {
        other.score.total_cmp(&self.score).then(self.position.cmp(&other.position))
    }
}

impl SearchIndex {
    /// Ranks the tools for several queries at once. Queries take turns, so each gets its share of
    /// the results; a tool is returned once, for the query that ranks it first.
    ///
    /// Reads at most [`MAX_QUERIES`](crate::MAX_QUERIES) queries of
    /// [`MAX_QUERY_BYTES`](crate::MAX_QUERY_BYTES) each and returns at most
    /// [`MAX_RESULTS`] results.
    pub fn search<S: AsRef<str>>(&self, queries: &[S], limit: usize) -> Vec<SearchHit> {
        self.search_with(queries, RankingInputs::default(), limit)
    }

    /// Ranks as [`search`](Self::search) does, with further inputs.
    pub fn search_with<S: AsRef<str>>(
        &self,
        queries: &[S],
        inputs: RankingInputs<'_>,
        limit: usize,
    ) -> Vec<SearchHit> {
        let limit = limit.min(MAX_RESULTS);
        let parsed: Vec<(&str, QueryTerms)> = readable_queries(queries)
            .map(|query| (query, QueryTerms::parse(query, &self.weights)))
            .collect();
        let found: Vec<Vec<FoundTerm<'_>>> =
            parsed.iter().map(|(_, terms)| self.find_terms(terms)).collect();
        let ranked = parsed.iter().zip(&found).enumerate();
        let ranked: Vec<Vec<RankedTool>> = ranked
            .map(|(at, ((query, terms), found))| {
                let lexical = self.score_terms(terms, found);
                let sentence = inputs.sentences.and_then(|it| {
                    let tables = it.tools.iter().map(AsRef::as_ref).collect();
                    Some((tables, it.queries.get(at)?.as_ref()?))
                });
                let mixed = self.mix_tiers((query, terms), lexical, sentence);
                let least = largest(&mixed) * MIN_SCORE;
                let scores = match inputs.learned.get(at) {
                    Some(learned) => self.add_learned(terms, learned, mixed),
                    None => mixed,
                };
                top_tools(&scores, least, limit)
            })
            .collect();
        let matches = |query: usize, position: usize| {
            let found = found.get(query).map(|it| self.explain(position, it));
            let mut matches = found.unwrap_or_default();
            if let Some(((_, terms), learned)) = parsed.get(query).zip(inputs.learned.get(query)) {
                explain_learned(position, terms, learned, &mut matches);
            }
            matches
        };
        let hit = |(query, tool): (usize, RankedTool)| SearchHit {
            position: tool.position,
            score: tool.score,
            query,
            matches: matches(query, tool.position),
        };
        take_turns(&ranked, limit).into_iter().map(hit).collect()
    }

    /// Returns the words of a query that a tool matches.
    fn explain(&self, position: usize, found: &[FoundTerm<'_>]) -> Vec<TermMatch> {
        let matched = |it: &FoundTerm<'_>| {
            let counts = self.counts_at(position, it.term)?;
            let (word, correction) = (it.word.to_owned(), it.correction.clone());
            let fields = counts.fields().collect();
            Some(TermMatch { word, correction, fields, is_learned: false })
        };
        found.iter().filter_map(matched).collect()
    }
}

/// Returns the best tools above a score, the best first with the score 1.
fn top_tools(scores: &[f32], least: f32, limit: usize) -> Vec<RankedTool> {
    let best = largest(scores);
    let all = scores.iter().enumerate().filter(|(_, score)| **score > least);
    let mut all: Vec<RankedTool> =
        all.map(|(position, score)| RankedTool { position, score: score / best }).collect();
    if all.len() > limit {
        all.select_nth_unstable_by(limit, RankedTool::compare);
        all.truncate(limit);
    }
    all.sort_unstable_by(RankedTool::compare);
    all
}

/// Takes the next result of each query in turn, without repetition.
fn take_turns(ranked: &[Vec<RankedTool>], limit: usize) -> Vec<(usize, RankedTool)> {
    let mut lists: Vec<_> = ranked.iter().map(|list| list.iter()).collect();
    let (mut seen, mut taken) = (HashSet::new(), Vec::new());
    loop {
        let before = taken.len();
        for (query, list) in lists.iter_mut().enumerate() {
            if taken.len() == limit {
                return taken;
            }
            if let Some(tool) = list.find(|tool| seen.insert(tool.position)) {
                taken.push((query, *tool));
            }
        }
        if taken.len() == before {
            return taken;
        }
    }
}
