//! Cost of search over many tools: time to analyze and index them, time of a query, and memory.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use search::{
    AnalyzedTool, LearnedTerms, LearnedTool, MAX_QUERY_STEMS, MAX_STEM_TOOLS, RankingInputs,
    RankingWeights, SearchIndex, query_stems,
};

use super::retrieval_data::{self, RetrievalSet};
use crate::system_stats;

/// Maximum number of measured queries of each set.
const QUERIES_PER_SET: usize = 200;
/// Results of a measured query.
const RESULTS: usize = 5;

/// Cost of one ranking.
#[derive(Debug)]
pub(super) struct RankingCost {
    /// Time to build the index from analyzed tools.
    pub(super) build: Duration,
    /// Times of the queries, sorted.
    pub(super) queries: Vec<Duration>,
}

impl RankingCost {
    /// Returns the time within which a share of the queries is answered.
    pub(super) fn percentile(&self, share: f64) -> Duration {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rank among thousands"
        )]
        let rank = (self.queries.len() as f64 * share) as usize;
        self.queries
            .get(rank.min(self.queries.len().saturating_sub(1)))
            .copied()
            .unwrap_or_default()
    }
}

/// Cost of search over a number of tools.
#[derive(Debug)]
pub(super) struct SearchCost {
    pub(super) tools: usize,
    /// Time to analyze all definitions, on one core.
    pub(super) analysis: Duration,
    /// Words alone, and words with word vectors.
    pub(super) lexical: RankingCost,
    pub(super) default: RankingCost,
    /// Both, where the evidence of each stem of a query is at its bound.
    pub(super) learned: RankingCost,
    /// Resident memory of the analyzed tools and one index, in MiB.
    pub(super) memory_mib: f64,
}

/// Measures search over distractors with queries of all sets.
pub(super) fn measure_cost(
    data: &Path,
    tools: usize,
    sets: &[(&str, f64)],
) -> Result<SearchCost, String> {
    let mut queries = Vec::new();
    for (name, _) in sets {
        let set = RetrievalSet::read(data, name, name)?;
        let step = set.queries.len().div_ceil(QUERIES_PER_SET).max(1);
        queries.extend(set.queries.into_iter().step_by(step).map(|it| it.queries));
    }
    let mut rows = Vec::new();
    for file in retrieval_data::DISTRACTORS {
        rows.extend(retrieval_data::read_rows(&data.join("distractors").join(file))?);
    }
    // The set that exceeds the distractors by a few hundred is not needed for a cost.
    rows.truncate(tools);
    let before = system_stats::process_memory(std::process::id()).0;
    let started = Instant::now();
    let analyzed: Vec<Arc<AnalyzedTool>> =
        rows.iter().map(|row| retrieval_data::analyze_row(row).0).collect();
    let analysis = started.elapsed();
    let (index, build) = build_index(&analyzed, RankingWeights::default());
    let memory_mib = system_stats::process_memory(std::process::id()).0 - before;
    let default = RankingCost { build, queries: time_queries(&index, &queries) };
    let learned = |query: &String| most_learned_terms(query, analyzed.len());
    let terms: Vec<Vec<LearnedTerms>> =
        queries.iter().map(|it| it.iter().map(learned).collect()).collect();
    let learned = RankingCost { build, queries: time_learned_queries(&index, &queries, &terms) };
    drop(index);
    let (index, build) = build_index(&analyzed, RankingWeights::default().lexical_only());
    let lexical = RankingCost { build, queries: time_queries(&index, &queries) };
    Ok(SearchCost { tools: analyzed.len(), analysis, lexical, default, learned, memory_mib })
}

fn build_index(tools: &[Arc<AnalyzedTool>], weights: RankingWeights) -> (SearchIndex, Duration) {
    let started = Instant::now();
    let index = SearchIndex::build_with(tools, weights);
    (index, started.elapsed())
}

fn time_queries(index: &SearchIndex, queries: &[Vec<String>]) -> Vec<Duration> {
    time_learned_queries(index, queries, &vec![Vec::new(); queries.len()])
}

fn time_learned_queries(
    index: &SearchIndex,
    queries: &[Vec<String>],
    learned: &[Vec<LearnedTerms>],
) -> Vec<Duration> {
    let time = |(query, learned): (&Vec<String>, &Vec<LearnedTerms>)| {
        let inputs = RankingInputs { learned, ..RankingInputs::default() };
        let started = Instant::now();
        std::hint::black_box(index.search_with(query, inputs, RESULTS));
        started.elapsed()
    };
    let mut times: Vec<Duration> = queries.iter().zip(learned).map(time).collect();
    times.sort_unstable();
    times
}

/// As many learned tools for each stem of the query as there may be, spread over all tools.
fn most_learned_terms(query: &str, tools: usize) -> LearnedTerms {
    let of_stem = |stem: usize| {
        let place = |number: usize| (stem * 31 + number) * tools / (MAX_STEM_TOOLS + 1) % tools;
        let learned = |number| LearnedTool { position: place(number), strength: 0.6 };
        (0..MAX_STEM_TOOLS).map(learned).collect()
    };
    (0..query_stems(query).len().min(MAX_QUERY_STEMS)).map(of_stem).collect()
}
