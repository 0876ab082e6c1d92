//! BM25F as its definition says, tool by tool and without an index: what the index is compared with.

use std::sync::Arc;

use crate::query_terms::QueryTerms;
use crate::tokenization::TermHash;
use crate::{AnalyzedTool, RankingWeights};

/// Tools of which each statistic is taken.
#[derive(Clone, Copy)]
pub(super) struct StatisticTools<'a> {
    pub(super) number: &'a [Arc<AnalyzedTool>],
    pub(super) term_counts: &'a [Arc<AnalyzedTool>],
    pub(super) lengths: &'a [Arc<AnalyzedTool>],
}

impl<'a> StatisticTools<'a> {
    /// Takes all statistics of these tools.
    pub(super) fn all_of(tools: &'a [Arc<AnalyzedTool>]) -> Self {
        Self { number: tools, term_counts: tools, lengths: tools }
    }
}

/// Returns the score of each tool, scaled so that the best one is 1.
#[expect(clippy::cast_precision_loss, reason = "numbers of a few tools")]
pub(super) fn scores(
    tools: &[Arc<AnalyzedTool>],
    statistics: StatisticTools<'_>,
    query: &str,
    weights: &RankingWeights,
) -> Vec<f32> {
    let query = QueryTerms::parse(query, weights);
    let has = |tool: &AnalyzedTool, term| tool.terms.iter().any(|it| it.term == term);
    let count = |term| statistics.term_counts.iter().filter(|tool| has(tool, term)).count();
    let all = statistics.number.len() as f32;
    let average = |field: usize| {
        let lengths = statistics.lengths.iter().map(|tool| u32::from(tool.lengths[field]));
        let present = lengths.clone().filter(|length| *length > 0).count().max(1);
        lengths.sum::<u32>().max(1) as f32 / present as f32
    };
    let score = |tool: &Arc<AnalyzedTool>| {
        let mut score = 0.0;
        for it in &query.terms {
            let term = TermHash::of_term(&it.stem);
            let with = count(term) as f32;
            let Some(found) = tool.terms.iter().find(|counts| counts.term == term) else {
                continue;
            };
            let mut sum = 0.0;
            for (field, counted) in found.counts.iter() {
                let share = weights.fields[field].length_share;
                let length = 1.0 - share + share * f32::from(tool.lengths[field]) / average(field);
                sum += counted as f32 * weights.fields[field].weight / length;
            }
            let rarity =
                (1.0 + (all - with + 0.5) / (with + 0.5)).ln().powf(weights.rarity_exponent);
            score += it.weight * rarity * sum / (weights.saturation + sum);
        }
        score
    };
    let scores: Vec<f32> = tools.iter().map(score).collect();
    let best = scores.iter().copied().fold(1e-9, f32::max);
    scores.iter().map(|score| score / best).collect()
}
