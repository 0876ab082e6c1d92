//! Quality of learning: one half of the queries of a set is learned, and the other half is measured.

use std::collections::{HashMap, HashSet};
use std::fmt;

use search::{
    CallerHashes, LearnedTerms, LearnedTool, MAX_QUERY_STEMS, RankingInputs, SearchIndex,
    ToolEvidence, query_stems,
};
use serde_json::{Value, json};

use super::retrieval_data::{JudgedQuery, RetrievalSet};
use super::retrieval_quality::{DEPTH, Quality, judge_queries};
use crate::target_check::mark_missed;

/// Sets that are measured.
pub(super) const LEARNING_SETS: [&str; 4] =
    ["metatool_single", "stabletoolbench", "livemcpbench", "bfcl_v4"];
/// Points by which a set may fall below the ranking without learning.
const MAX_LOSS: f64 = 0.5;
/// The day of all calls.
const DAY: u32 = 1;

const LEARNING_HEAD: &str = "\
\n## Learning\n
Every other query of a set is learned: each of a number of callers searches for it and calls those right tools that the search returned among its first five, as \
a server learns them. The others are measured, without learning and with it, by one caller and by three, which are the same for all queries. *In both* is the number of \
right tools of learned queries that are right for measured ones too: only these can gain. Evidence has the bounds of the server. The figures are upper bounds, because nobody \
calls a wrong tool here, and each query is followed by calls.\n";

/// Number of results of a search whose tools may be called.
const CALLED_RESULTS: usize = 5;

/// Figures of one set.
#[derive(Debug)]
pub(super) struct LearnedQuality {
    name: &'static str,
    learned_queries: usize,
    measured_queries: usize,
    /// Number of tools that are right for learned queries and for measured ones.
    common_tools: usize,
    /// Without learning.
    default: Quality,
    /// Each learned query by one caller.
    one_caller: Quality,
    /// Each learned query by three callers.
    three_callers: Quality,
}

/// Measures one set without and with learning.
pub(super) fn measure_learning(name: &'static str, set: &RetrievalSet) -> LearnedQuality {
    let of_half = |half: usize| set.queries.iter().skip(half).step_by(2).collect::<Vec<_>>();
    let (learned, measured) = (of_half(0), of_half(1));
    let index = SearchIndex::build(&set.tools);
    let calls: Vec<QueryCalls> = learned.iter().flat_map(|it| calls_of(&index, it)).collect();
    let measure = |callers: u32| {
        let evidence = StemEvidences::from_calls(&calls, callers);
        judge_queries(&measured, |queries| {
            let terms: Vec<LearnedTerms> = queries.iter().map(|it| evidence.terms_of(it)).collect();
            let inputs = RankingInputs { learned: &terms, ..RankingInputs::default() };
            index.search_with(queries, inputs, DEPTH)
        })
    };
    LearnedQuality {
        name,
        learned_queries: learned.len(),
        measured_queries: measured.len(),
        common_tools: gold_tools(&learned).intersection(&gold_tools(&measured)).count(),
        default: measure(0),
        one_caller: measure(1),
        three_callers: measure(3),
    }
}

fn gold_tools(queries: &[&JudgedQuery]) -> HashSet<usize> {
    queries.iter().flat_map(|it| it.gold.iter().copied()).collect()
}

/// The tools that are called after one query.
struct QueryCalls {
    query: String,
    tools: Vec<usize>,
}

/// Returns the calls after a search: of the right tools that it returned, each by the query that found it.
fn calls_of(index: &SearchIndex, judged: &JudgedQuery) -> Vec<QueryCalls> {
    let hits = index.search(&judged.queries, CALLED_RESULTS);
    let called_after = |(number, query): (usize, &String)| {
        let found = hits.iter().filter(|it| it.query == number).map(|it| it.position);
        let tools = found.filter(|it| judged.gold.contains(it)).collect();
        QueryCalls { query: query.clone(), tools }
    };
    judged.queries.iter().enumerate().map(called_after).collect()
}

/// Learned tools by stem.
struct StemEvidences {
    numbers: HashMap<String, u64>,
    tools: HashMap<u64, Vec<LearnedTool>>,
}

impl StemEvidences {
    /// Learns the calls of each of a number of callers.
    fn from_calls(calls: &[QueryCalls], callers: u32) -> Self {
        let mut numbers: HashMap<String, u64> = HashMap::new();
        let mut by_tool: HashMap<usize, ToolEvidence> = HashMap::new();
        for QueryCalls { query, tools } in calls {
            let stems = query_stems(query).into_iter().map(|stem| {
                let next = numbers.len() as u64;
                *numbers.entry(stem).or_insert(next)
            });
            let stems: Vec<u64> = stems.collect();
            for caller in 0..callers {
                let caller = CallerHashes { root_key: caller, subject: caller };
                for tool in tools {
                    by_tool.entry(*tool).or_default().add_call(&stems, caller, DAY);
                }
            }
        }
        let mut tools: HashMap<u64, Vec<LearnedTool>> = HashMap::new();
        for (&position, evidence) in &by_tool {
            for it in evidence.stems() {
                let learned = LearnedTool { position, strength: it.strength(DAY) };
                tools.entry(it.stem).or_default().push(learned);
            }
        }
        for of_stem in tools.values_mut() {
            of_stem.sort_by(|one, other| {
                let by_strength = other.strength.total_cmp(&one.strength);
                by_strength.then(one.position.cmp(&other.position))
            });
            of_stem.truncate(search::MAX_STEM_TOOLS);
        }
        Self { numbers, tools }
    }

    fn terms_of(&self, query: &str) -> LearnedTerms {
        let of_stem = |stem: String| self.tools.get(self.numbers.get(&stem)?).cloned();
        let stems = query_stems(query).into_iter().take(MAX_QUERY_STEMS);
        stems.map(|stem| of_stem(stem).unwrap_or_default()).collect()
    }
}

/// Writes the table of all sets.
pub(super) fn write_learning(f: &mut fmt::Formatter<'_>, sets: &[LearnedQuality]) -> fmt::Result {
    writeln!(f, "{LEARNING_HEAD}")?;
    writeln!(
        f,
        "| set | learned | measured | in both | default R@5 | one caller | three callers | to be |"
    )?;
    writeln!(f, "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")?;
    for set in sets {
        let [default, one, three] =
            [set.default, set.one_caller, set.three_callers].map(|it| it.recall_5);
        let least = default - MAX_LOSS;
        let shown = (least * 10.0).round() / 10.0;
        let goal = mark_missed(format!("≥ {shown}"), one.min(three) >= least);
        let LearnedQuality { name, learned_queries, measured_queries, common_tools, .. } = set;
        writeln!(
            f,
            "| {name} | {learned_queries} | {measured_queries} | {common_tools} | {default:.1} | {one:.1} | {three:.1} | {goal} |"
        )?;
    }
    Ok(())
}

/// The table of all sets alone.
#[derive(Debug)]
pub(super) struct LearningTable(pub(super) Vec<LearnedQuality>);

impl fmt::Display for LearningTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_learning(f, &self.0)
    }
}

/// Returns the figures as JSON.
pub(super) fn learning_json(sets: &[LearnedQuality]) -> Value {
    let set = |it: &LearnedQuality| {
        json!({
            "name": it.name,
            "learned_queries": it.learned_queries,
            "measured_queries": it.measured_queries,
            "common_tools": it.common_tools,
            "default_recall_5": it.default.recall_5,
            "one_caller_recall_5": it.one_caller.recall_5,
            "three_callers_recall_5": it.three_callers.recall_5,
        })
    };
    sets.iter().map(set).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use search::{AnalyzedTool, RankingWeights, SearchIndex, ToolText};

    use super::{QueryCalls, StemEvidences, calls_of};
    use crate::search::retrieval_data::JudgedQuery;

    #[test]
    fn called_tools_have_evidence_by_their_callers() {
        let calls = [QueryCalls { query: "forecasts for Rome".to_owned(), tools: vec![7] }];
        let strength = |callers| {
            let evidence = StemEvidences::from_calls(&calls, callers);
            let terms = evidence.terms_of("forecast of snow");
            terms.concat().iter().map(|it| (it.position, it.strength)).collect::<Vec<_>>()
        };
        assert_eq!(strength(0), []);
        assert_eq!(strength(3), [(7, 0.6)]);
        assert!(strength(1)[0].1 < 0.34);
    }

    #[test]
    fn right_tools_that_a_search_returns_are_called_and_no_others() {
        let tool = |name: &str| {
            let text = ToolText {
                name,
                title: None,
                description: "",
                input_schema: None,
                source: "s",
                source_description: "",
                categories: &[],
            };
            Arc::new(AnalyzedTool::from_text(&text))
        };
        let words = RankingWeights::default().lexical_only();
        let index = SearchIndex::build_with(&["forecast", "mail", "calendar"].map(tool), words);
        let queries = vec!["forecast".to_owned(), "calendar".to_owned()];
        let calls = calls_of(&index, &JudgedQuery { queries, gold: vec![0, 1] });
        let called = |it: &QueryCalls| (it.query.clone(), it.tools.clone());
        let calls: Vec<_> = calls.iter().map(called).collect();
        assert_eq!(calls, [("forecast".to_owned(), vec![0]), ("calendar".to_owned(), vec![])]);
    }
}
