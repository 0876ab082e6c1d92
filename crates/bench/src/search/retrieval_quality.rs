//! Quality of the rankings of one set, in per cent.

use std::collections::HashSet;
use std::sync::Arc;

use search::{
    QuantizedVector, QueryVectors, RankingInputs, RankingWeights, SearchHit, SearchIndex,
    SentenceVectors, VectorTable, query_texts,
};

use super::SENTENCE_QUERIES;
use super::retrieval_data::{JudgedQuery, RetrievalSet};
use super::sentence_encoder::SentenceEncoder;

/// Results that are judged for each query.
pub(super) const DEPTH: usize = 10;

/// Mean figures over the queries of a set, in per cent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Quality {
    /// Share of the right tools among the first 5, and among the first 10.
    pub(super) recall_5: f64,
    pub(super) recall_10: f64,
    /// Normalised discounted cumulative gain of the first 5.
    pub(super) ndcg_5: f64,
    /// Queries of which the first result is right.
    pub(super) hit_1: f64,
}

impl Quality {
    /// Adds the figures of another.
    pub(super) fn add(&mut self, other: &Self) {
        self.recall_5 += other.recall_5;
        self.recall_10 += other.recall_10;
        self.ndcg_5 += other.ndcg_5;
        self.hit_1 += other.hit_1;
    }

    /// Divides the figures by a number.
    pub(super) fn divided_by(self, number: usize) -> Self {
        let by = number.max(1) as f64;
        Self {
            recall_5: self.recall_5 / by,
            recall_10: self.recall_10 / by,
            ndcg_5: self.ndcg_5 / by,
            hit_1: self.hit_1 / by,
        }
    }
}

/// Quality of both rankings of a set.
#[derive(Debug)]
pub(super) struct SetQuality {
    pub(super) name: String,
    pub(super) tools: usize,
    pub(super) queries: usize,
    /// Words alone.
    pub(super) lexical: Quality,
    /// Words and word vectors, as delivered.
    pub(super) default: Quality,
    /// With a sentence model too.
    pub(super) sentences: Option<Quality>,
}

/// Ranks all queries of a set.
pub(super) fn measure_set(
    set: &RetrievalSet,
    encoder: Option<&mut SentenceEncoder>,
) -> Result<SetQuality, String> {
    let all: Vec<&JudgedQuery> = set.queries.iter().collect();
    let measure = |weights| {
        let index = SearchIndex::build_with(&set.tools, weights);
        judge_queries(&all, |queries| index.search(queries, DEPTH))
    };
    let (name, tools, queries) = (set.name.clone(), set.tools.len(), set.queries.len());
    let lexical = measure(RankingWeights::default().lexical_only());
    let default = measure(RankingWeights::default());
    let sentences = encoder.map(|encoder| measure_with_sentences(set, encoder)).transpose()?;
    Ok(SetQuality { name, tools, queries, lexical, default, sentences })
}

fn measure_with_sentences(
    set: &RetrievalSet,
    encoder: &mut SentenceEncoder,
) -> Result<Quality, String> {
    let step = set.queries.len().div_ceil(SENTENCE_QUERIES).max(1);
    let judged: Vec<&JudgedQuery> = set.queries.iter().step_by(step).collect();
    let texts = |query: &String| query_texts(query);
    let of_queries: Vec<String> =
        judged.iter().flat_map(|it| &it.queries).flat_map(texts).collect();
    encoder.embed_texts(
        set.texts.iter().map(|text| &**text).chain(of_queries.iter().map(|it| &**it)),
    )?;
    let first = set.texts.first().and_then(|text| encoder.vector_of(text));
    let dimensions = first.map_or(0, QuantizedVector::dimensions);
    let mut tools = VectorTable::with_capacity(dimensions, set.texts.len());
    set.texts.iter().for_each(|text| tools.push(encoder.vector_of(text)));
    let tools = [Arc::new(tools)];
    let vectors = |query: &String| {
        let texts = query_texts(query);
        QueryVectors::from_texts(texts.iter().filter_map(|text| encoder.vector_of(text)).cloned())
    };
    let index = SearchIndex::build(&set.tools);
    Ok(judge_queries(&judged, |queries| {
        let of_queries: Vec<_> = queries.iter().map(vectors).collect();
        let sentences = SentenceVectors { tools: &tools, queries: &of_queries };
        let inputs = RankingInputs { sentences: Some(sentences), ..RankingInputs::default() };
        index.search_with(queries, inputs, DEPTH)
    }))
}

/// Returns the mean figures of a ranking over queries.
pub(super) fn judge_queries(
    queries: &[&JudgedQuery],
    search: impl Fn(&[String]) -> Vec<SearchHit>,
) -> Quality {
    let mut sum = Quality::default();
    for query in queries {
        let hits = search(&query.queries);
        let positions: Vec<usize> = hits.iter().map(|hit| hit.position).collect();
        sum.add(&judge_ranking(&positions, &query.gold));
    }
    sum.divided_by(queries.len())
}

fn judge_ranking(positions: &[usize], gold: &[usize]) -> Quality {
    let gold: HashSet<&usize> = gold.iter().collect();
    let found = |first: usize| positions.iter().take(first).filter(|it| gold.contains(it)).count();
    let recall = |first| 100.0 * found(first) as f64 / gold.len().max(1) as f64;
    let gain = |at: usize| 1.0 / (at as f64 + 2.0).log2();
    let gains = positions.iter().take(5).enumerate().filter(|(_, it)| gold.contains(it));
    let ideal: f64 = (0..gold.len().min(5)).map(gain).sum();
    Quality {
        recall_5: recall(5),
        recall_10: recall(10),
        ndcg_5: 100.0 * gains.map(|(at, _)| gain(at)).sum::<f64>() / ideal.max(1e-9),
        hit_1: 100.0 * found(1) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::judge_ranking;

    #[test]
    fn figures_of_a_ranking() {
        let best = judge_ranking(&[4, 7, 1], &[7, 4]);
        assert_eq!((best.recall_5, best.hit_1, best.ndcg_5), (100.0, 100.0, 100.0));
        let late = judge_ranking(&[1, 2, 3, 5, 6, 4], &[7, 4]);
        assert_eq!((late.recall_5, late.recall_10, late.hit_1), (0.0, 50.0, 0.0));
        let second = judge_ranking(&[1, 4], &[4]);
        assert!((second.ndcg_5 - 63.09).abs() < 0.01, "{}", second.ndcg_5);
    }
}
