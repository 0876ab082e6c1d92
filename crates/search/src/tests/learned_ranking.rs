//! Tests of what was learned: it raises tools by a bounded share of the best score, lowers none, and
//! says at which words.

use super::{analyze, names, sample_index, sample_tools};
use crate::{
    CallerHashes, LearnedTerms, LearnedTool, RankingInputs, RankingWeights, SearchHit, SearchIndex,
    StemEvidence, query_stems,
};

fn position(name: &str) -> usize {
    sample_tools().iter().position(|tool| tool.0 == name).unwrap()
}

/// The strength of the evidence by a number of callers.
fn strength(callers: u32) -> f32 {
    let mark = |it: u32| CallerHashes { root_key: it, subject: it };
    StemEvidence { stem: 1, day: 1, callers: (0..callers).map(mark).collect() }.strength(1)
}

/// Evidence that a tool was called after queries with some words.
fn learned(query: &str, words: &[&str], name: &str, strength: f32) -> LearnedTerms {
    let stems: Vec<String> = words.iter().flat_map(|word| query_stems(word)).collect();
    let tool = LearnedTool { position: position(name), strength };
    let of_stem = |stem: String| if stems.contains(&stem) { vec![tool] } else { Vec::new() };
    query_stems(query).into_iter().map(of_stem).collect()
}

fn search(index: &SearchIndex, query: &str, learned: &[LearnedTerms]) -> Vec<SearchHit> {
    index.search_with(&[query], RankingInputs { sentences: None, learned }, 10)
}

#[test]
fn a_word_that_no_tool_has_finds_the_tool_that_was_called_after_it() {
    let index = sample_index(RankingWeights::default().lexical_only());
    let query = "prepare standup zzyx";
    assert_eq!(search(&index, query, &[]), [], "control");
    let all = learned(query, &["standup", "zzyx"], "calendar.create_event", strength(3));
    let found = search(&index, query, &[all]);
    assert_eq!(names(&found), ["calendar.create_event"]);
    let shown: Vec<_> = found[0].matches.iter().filter(|it| it.is_learned).collect();
    let words: Vec<&str> = shown.iter().map(|it| it.word.as_str()).collect();
    assert_eq!(words, ["standup", "zzyx"]);
    assert!(shown.iter().all(|it| it.fields.is_empty()));
    assert!((found[0].score - 1.0).abs() < 1e-6);
}

#[test]
fn without_evidence_results_are_the_same_bit_for_bit() {
    let index = sample_index(RankingWeights::default());
    for query in ["read a file", "standup", "weather forecast, then mail it", "查询天气", ""] {
        let plain = index.search(&[query], 10);
        let empty: LearnedTerms = query_stems(query).iter().map(|_| Vec::new()).collect();
        assert_eq!(search(&index, query, &[empty]), plain, "{query}");
        assert_eq!(search(&index, query, &[]), plain, "{query}");
    }
    let other = learned("read a file", &["file"], "send_mail", 0.8);
    let raised = search(&index, "read a file", &[other]);
    assert_ne!(raised, index.search(&["read a file"], 10), "control: evidence changes results");
}

#[test]
fn others_keep_their_order_and_none_is_lost() {
    let index = sample_index(RankingWeights::default());
    for tool in sample_tools() {
        let query = "read the file of the weather, then send mail";
        let all = learned(query, &["read", "file", "weather", "send", "mail"], tool.0, 0.8);
        let without = |hits: Vec<SearchHit>| {
            let others = hits.into_iter().filter(|hit| hit.position != position(tool.0));
            others.map(|hit| hit.position).collect::<Vec<_>>()
        };
        let (before, after) = (index.search(&[query], 10), search(&index, query, &[all]));
        assert_eq!(without(before), without(after), "{}", tool.0);
    }
}

/// A caller who searches for all words of others' queries and calls its own tool.
#[test]
fn one_caller_raises_a_tool_by_a_sixth_of_the_best_score_at_most() {
    let mut tools: Vec<_> = sample_tools().iter().map(analyze).collect();
    tools.truncate(5);
    let index = SearchIndex::build(&tools);
    let query = "read the text file";
    let best = |hits: &[SearchHit]| {
        let of = |name| hits.iter().find(|it| it.position == position(name)).map(|it| it.score);
        (of("read_file").unwrap_or(0.0), of("send_mail").unwrap_or(0.0))
    };
    let (own, before) = best(&search(&index, query, &[]));
    let by_one = learned(query, &["read", "text", "file"], "send_mail", strength(1));
    let (still, after) = best(&search(&index, query, &[by_one]));
    assert!((own - 1.0).abs() < 1e-6 && (still - 1.0).abs() < 1e-6, "the right tool stays first");
    let most = RankingWeights::default().learned_weight / 3.0;
    assert!(after > before && after <= before.max(0.0) + most + 1e-6, "{before} to {after}");
    assert!(most < 0.17, "{most}");
}
