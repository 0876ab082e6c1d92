//! Ranking of a request: tiers mixed per query, queries fused so that each gets its share.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use crate::analyzed_tool::SearchField;
use crate::lexical_score::{FoundTerm, largest};
use crate::query_terms::QueryTerms;
use crate::search_index::SearchIndex;
use crate::sentence_tier::QueryVectors;
use crate::vector_table::VectorTable;
use crate::{MAX_QUERIES, MAX_QUERY_BYTES, MAX_RESULTS};

/// Lowest score of a result, as a share of the query's best one.
const MIN_SCORE: f32 = 0.02;

/// A word of a query that a tool matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TermMatch {
    /// The word as the query has it, in lower case.
    pub word: String,
    /// The word of a name that was searched instead, if the query's word is unknown.
    pub correction: Option<String>,
    /// Fields in which it occurs.
    pub fields: Vec<SearchField>,
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
    /// Reads at most [`MAX_QUERIES`] queries of [`MAX_QUERY_BYTES`] each and returns at most
    /// [`MAX_RESULTS`] results.
    pub fn search<S: AsRef<str>>(&self, queries: &[S], limit: usize) -> Vec<SearchHit> {
        self.search_with_sentences(queries, None, limit)
    }

    /// Ranks as [`search`](Self::search) does, with vectors of a sentence model as a third tier.
    pub fn search_with_sentences<S: AsRef<str>>(
        &self,
        queries: &[S],
        sentences: Option<SentenceVectors<'_>>,
        limit: usize,
    ) -> Vec<SearchHit> {
        let limit = limit.min(MAX_RESULTS);
        let queries = queries.iter().take(MAX_QUERIES).map(|query| {
            let query = query.as_ref();
            query.get(..query.floor_char_boundary(MAX_QUERY_BYTES)).unwrap_or(query)
        });
        let parsed: Vec<(&str, QueryTerms)> =
            queries.map(|query| (query, QueryTerms::parse(query, &self.weights))).collect();
        let found: Vec<Vec<FoundTerm<'_>>> =
            parsed.iter().map(|(_, terms)| self.find_terms(terms)).collect();
        let ranked = parsed.iter().zip(&found).enumerate();
        let ranked: Vec<Vec<RankedTool>> = ranked
            .map(|(at, ((query, terms), found))| {
                let lexical = self.score_terms(terms, found);
                let sentence = sentences.and_then(|it| {
                    let tables = it.tools.iter().map(AsRef::as_ref).collect();
                    Some((tables, it.queries.get(at)?.as_ref()?))
                });
                top_tools(&self.mix_tiers((query, terms), lexical, sentence), limit)
            })
            .collect();
        let hit = |(query, tool): (usize, RankedTool)| SearchHit {
            position: tool.position,
            score: tool.score,
            query,
            matches: found.get(query).map_or_else(Vec::new, |it| self.explain(tool.position, it)),
        };
        take_turns(&ranked, limit).into_iter().map(hit).collect()
    }

    /// Returns the words of a query that a tool matches.
    fn explain(&self, position: usize, found: &[FoundTerm<'_>]) -> Vec<TermMatch> {
        let matched = |it: &FoundTerm<'_>| {
            let counts = self.counts_at(position, it.term)?;
            let (word, correction) = (it.word.to_owned(), it.correction.clone());
            Some(TermMatch { word, correction, fields: counts.fields().collect() })
        };
        found.iter().filter_map(matched).collect()
    }
}

/// Returns the best tools, the best first with the score 1.
fn top_tools(scores: &[f32], limit: usize) -> Vec<RankedTool> {
    let best = largest(scores);
    let least = best * MIN_SCORE;
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
