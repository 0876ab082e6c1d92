//! Report of the search benchmark: docs/reference/benchmarks-search.md, and its JSON.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use super::learned_quality::{LearnedQuality, learning_json, write_learning};
use super::retrieval_quality::{Quality, SetQuality};
use super::search_cost::{RankingCost, SearchCost};
use super::{SCALE_SETS, SETS, macro_average};
use crate::target_check::{NO_TARGET, at_least_target, below_target};

/// Points by which a set may fall below BM25.
const MAX_LOSS: f64 = 0.5;
/// Points by which three sets must exceed BM25 among distractors.
const MIN_SCALE_GAIN: f64 = 10.0;

/// The complete report of one run.
#[derive(Debug)]
pub(super) struct SearchReport {
    pub(super) machine: String,
    /// Sets of the macro average, in the order of [`SETS`].
    pub(super) sets: Vec<SetQuality>,
    /// Sets beside it: Chinese, and several queries in one request.
    pub(super) others: Vec<SetQuality>,
    /// Sets among distractors, in the order of [`SCALE_SETS`].
    pub(super) scale: Vec<SetQuality>,
    /// What learning gains.
    pub(super) learning: Vec<LearnedQuality>,
    pub(super) cost: SearchCost,
}

const REPORT_HEAD: &str = "\
# Quality and cost of tool search

Written by `cargo xtask bench search --write`; not by hand. Development queries only: the weights were chosen on them, so \
they say how the parts compare and less what other queries will find. Each request is the raw task as one query; \
`livemcp_route` has the queries that a model wrote for a task, one for each sub-task, in one request. Figures in per cent: \
R@5 is the share of the right tools among the first five, N@5 the normalised discounted cumulative gain, hit@1 the share of \
queries with a right tool first. *Words* is the lexical tier alone; *default* adds the word vectors, as delivered without a \
language model; *model* adds a sentence model (all-MiniLM-L6-v2, int8, 23 MB) too, for at most 1,000 queries of each set, \
evenly chosen. BM25 is bm25s (k1 1.2, b 0.75, Snowball stemmer, all fields as one text), measured apart on the same queries.
";

const SCALE_HEAD: &str = "\
\n## Among real distractors\n
Names and descriptions of real tools fill each set up to the number of tools; at most 500 of its queries, evenly chosen. Some of them are right answers too, so the \
figures are lower bounds.\n";

const COST_HEAD: &str = "\
\n## Cost\n
One thread, within the program; queries of all sets, five results each. A definition is analyzed once. The time to \
build an index is that of all its segments; a change builds those beside the changed tool.\n";

impl SearchReport {
    /// Returns the figures as JSON.
    pub(super) fn to_json(&self) -> Value {
        let all = |sets: &[SetQuality]| sets.iter().map(set_json).collect::<Vec<_>>();
        let cost = |it: &RankingCost| {
            json!({
                "build_ms": millis(it.build),
                "query_p50_ms": millis(it.percentile(0.5)),
                "query_p99_ms": millis(it.percentile(0.99)),
            })
        };
        json!({
            "machine": self.machine,
            "macro": {
                "words": quality_json(&macro_average(&self.sets, |set| set.lexical)),
                "default": quality_json(&macro_average(&self.sets, |set| set.default)),
                "model": self.macro_with_model().as_ref().map(quality_json),
            },
            "sets": all(&self.sets),
            "others": all(&self.others),
            "scale": all(&self.scale),
            "learning": learning_json(&self.learning),
            "cost": {
                "tools": self.cost.tools,
                "analysis_ms": millis(self.cost.analysis),
                "memory_mib": self.cost.memory_mib,
                "words": cost(&self.cost.lexical),
                "default": cost(&self.cost.default),
                "learned": cost(&self.cost.learned),
            },
        })
    }

    /// Returns the macro average with a sentence model, if there is one.
    fn macro_with_model(&self) -> Option<Quality> {
        let has_model = self.sets.iter().all(|set| set.sentences.is_some());
        has_model.then(|| macro_average(&self.sets, |set| set.sentences.unwrap_or_default()))
    }

    fn write_sets(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| set | tools | queries | BM25 R@5 | words R@5 | default R@5 | N@5 | R@10 | hit@1 | model R@5 | N@5 | to be |"
        )?;
        writeln!(
            f,
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
        )?;
        for (set, (_, bm25)) in self.sets.iter().zip(SETS) {
            let tiers = [Some(set.lexical), Some(set.default), set.sentences];
            let least = tiers.iter().flatten().map(|it| it.recall_5).fold(f64::MAX, f64::min);
            let goal = at_least_target(least, bm25 - MAX_LOSS, "");
            write_row(f, set, &format!("{bm25:.1}"), &goal)?;
        }
        let bm25 = SETS.iter().map(|(_, figure)| figure).sum::<f64>() / SETS.len() as f64;
        let (words, both) = (
            macro_average(&self.sets, |set| set.lexical),
            macro_average(&self.sets, |set| set.default),
        );
        let sentences = self.macro_with_model();
        let mut goals = format!(
            "words {}, default {}",
            at_least_target(words.recall_5, 66.0, ""),
            at_least_target(both.recall_5, 70.0, "")
        );
        if let Some(quality) = &sentences {
            goals.push_str(", model ");
            goals.push_str(&at_least_target(quality.recall_5, 74.0, ""));
        }
        let row = SetQuality {
            name: "macro average".to_owned(),
            tools: 0,
            queries: 0,
            lexical: words,
            default: both,
            sentences,
        };
        write_row(f, &row, &format!("{bm25:.1}"), &goals)?;
        for set in &self.others {
            let goal = match set.name.as_str() {
                "livemcp_route" => {
                    let best = set.sentences.unwrap_or(set.default);
                    at_least_target(best.recall_5, 60.0, "")
                }
                _ => NO_TARGET.to_owned(),
            };
            write_row(f, set, NO_TARGET, &goal)?;
        }
        Ok(())
    }

    fn write_scale(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{SCALE_HEAD}")?;
        writeln!(
            f,
            "| set | tools | queries | BM25 R@5 | words R@5 | default R@5 | N@5 | hit@1 | to be |"
        )?;
        writeln!(f, "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")?;
        for (set, (_, bm25, must)) in self.scale.iter().zip(SCALE_SETS) {
            let SetQuality { name, tools, queries, lexical, default, .. } = set;
            let goal = if *must {
                at_least_target(default.recall_5, bm25 + MIN_SCALE_GAIN, "")
            } else {
                NO_TARGET.to_owned()
            };
            let Quality { recall_5, ndcg_5, hit_1, .. } = default;
            let words = lexical.recall_5;
            writeln!(
                f,
                "| {name} | {tools} | {queries} | {bm25:.1} | {words:.1} | {recall_5:.1} | {ndcg_5:.1} | {hit_1:.1} | {goal} |"
            )?;
        }
        Ok(())
    }

    fn write_cost(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cost = &self.cost;
        writeln!(f, "{COST_HEAD}")?;
        writeln!(f, "| what, {} tools | figure | to be |\n| --- | ---: | ---: |", cost.tools)?;
        let mut row = |what: &str, time: Duration, limit: Option<f64>| {
            let ms = millis(time);
            let goal = limit.map_or_else(|| NO_TARGET.to_owned(), |it| below_target(ms, it, "ms"));
            writeln!(f, "| {what} | {ms:.2} ms | {goal} |")
        };
        row("all definitions analyzed", cost.analysis, None)?;
        row("the index built", cost.default.build, None)?;
        row("both", cost.analysis + cost.default.build, Some(5_000.0))?;
        row("a query, words alone, median", cost.lexical.percentile(0.5), Some(1.0))?;
        row("… 99 of 100 within", cost.lexical.percentile(0.99), Some(5.0))?;
        row("a query, default, median", cost.default.percentile(0.5), Some(15.0))?;
        row("… 99 of 100 within", cost.default.percentile(0.99), None)?;
        row("… with as much learned as may be, median", cost.learned.percentile(0.5), None)?;
        let goal = below_target(cost.memory_mib, 300.0, "MiB");
        writeln!(
            f,
            "| memory of the analyzed tools and one index, resident | {:.0} MiB | {goal} |",
            cost.memory_mib
        )
    }
}

impl fmt::Display for SearchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{REPORT_HEAD}\nMachine: {}.\n", self.machine)?;
        self.write_sets(f)?;
        self.write_scale(f)?;
        write_learning(f, &self.learning)?;
        self.write_cost(f)
    }
}

fn write_row(f: &mut fmt::Formatter<'_>, set: &SetQuality, bm25: &str, goal: &str) -> fmt::Result {
    let SetQuality { name, tools, queries, lexical, default, sentences } = set;
    let model = sentences.map_or_else(
        || format!("{NO_TARGET} | {NO_TARGET}"),
        |it| format!("{:.1} | {:.1}", it.recall_5, it.ndcg_5),
    );
    let number = |it: &usize| if *it == 0 { NO_TARGET.to_owned() } else { it.to_string() };
    let (tools, queries, words) = (number(tools), number(queries), lexical.recall_5);
    let Quality { recall_5, recall_10, ndcg_5, hit_1 } = default;
    writeln!(
        f,
        "| {name} | {tools} | {queries} | {bm25} | {words:.1} | {recall_5:.1} | {ndcg_5:.1} | {recall_10:.1} | {hit_1:.1} | {model} | {goal} |"
    )
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn set_json(set: &SetQuality) -> Value {
    json!({
        "name": set.name,
        "tools": set.tools,
        "queries": set.queries,
        "words": quality_json(&set.lexical),
        "default": quality_json(&set.default),
        "model": set.sentences.as_ref().map(quality_json),
    })
}

fn quality_json(it: &Quality) -> Value {
    json!({
        "recall_5": it.recall_5, "recall_10": it.recall_10,
        "ndcg_5": it.ndcg_5, "hit_1": it.hit_1,
    })
}
