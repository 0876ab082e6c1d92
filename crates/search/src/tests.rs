//! Tests of whole searches: what is found, why, in which order, and that only the view counts.

mod index_changes;
mod keyword_stuffing;
mod learned_ranking;
mod naive_ranking;

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use self::naive_ranking::StatisticTools;
use crate::{AnalyzedTool, RankingWeights, SearchField, SearchHit, SearchIndex, ToolText};

/// A tool of a test: name, description, input schema.
struct SampleTool(&'static str, &'static str, Value);

fn analyze(tool: &SampleTool) -> Arc<AnalyzedTool> {
    Arc::new(AnalyzedTool::from_text(&ToolText {
        name: tool.0,
        description: tool.1,
        input_schema: Some(&tool.2),
        source: "office",
        ..ToolText::default()
    }))
}

fn sample_tools() -> Vec<SampleTool> {
    let path = json!({"type": "object", "properties": {"path": {"type": "string", "description": "Path of the file."}}});
    let city = json!({"type": "object", "properties": {
        "city": {"type": "string"}, "unit": {"enum": ["celsius", "fahrenheit"]}}});
    let none = json!({"type": "object"});
    vec![
        SampleTool("read_file", "Returns the content of a text file.", path.clone()),
        SampleTool("delete_file", "Removes a file for good.", path),
        SampleTool("getWeatherForecast", "Forecast of temperature and rain for a place.", city),
        SampleTool("calendar.create_event", "Adds an appointment to a calendar.", none.clone()),
        SampleTool(
            "send_mail",
            "Sends an e-mail message to one recipient or several.",
            none.clone(),
        ),
        SampleTool("GitHub_create_issue", "Opens an issue in a repository.", none.clone()),
        SampleTool("查询天气", "查询城市的天气预报。", none),
    ]
}

fn sample_index(weights: RankingWeights) -> SearchIndex {
    let tools: Vec<_> = sample_tools().iter().map(analyze).collect();
    SearchIndex::build_with(&tools, weights)
}

fn names(hits: &[SearchHit]) -> Vec<&'static str> {
    let tools = sample_tools();
    hits.iter().map(|hit| tools[hit.position].0).collect()
}

fn first(index: &SearchIndex, query: &str) -> &'static str {
    names(&index.search(&[query], 5)).first().copied().unwrap_or("nothing")
}

#[test]
fn every_spelling_of_a_name_finds_the_tool_in_both_tiers() {
    let weights = RankingWeights::default();
    for index in [sample_index(weights.clone()), sample_index(weights.lexical_only())] {
        for (query, expected) in [
            ("read a file", "read_file"),
            ("reading files", "read_file"),
            ("weather forecasts", "getWeatherForecast"),
            ("getweatherforecast", "getWeatherForecast"),
            ("calender event", "calendar.create_event"),
            ("github issue", "GitHub_create_issue"),
            ("readfile", "read_file"),
            ("上海天气", "查询天气"),
            ("fahrenheit", "getWeatherForecast"),
            ("please delete it", "delete_file"),
        ] {
            assert_eq!(first(&index, query), expected, "{query}");
        }
    }
}

#[test]
fn word_vectors_find_what_no_word_says() {
    let (lexical, default) = (
        sample_index(RankingWeights::default().lexical_only()),
        sample_index(RankingWeights::default()),
    );
    // No word of the query is in any tool.
    assert!(
        lexical
            .search(&["temperatures tomorrow outdoors"], 5)
            .iter()
            .all(|it| !it.matches.is_empty())
    );
    assert_eq!(first(&lexical, "snowstorm"), "nothing");
    assert_eq!(first(&default, "snowstorm"), "getWeatherForecast");
    assert_eq!(default.search(&["snowstorm"], 1)[0].matches, []);
}

#[test]
fn a_result_says_which_words_matched_where() {
    let index = sample_index(RankingWeights::default());
    let hits = index.search(&["calender appointment"], 1);
    let found: Vec<_> = hits[0]
        .matches
        .iter()
        .map(|it| (&*it.word, it.correction.as_deref(), &*it.fields))
        .collect();
    let expected: [(_, _, &[SearchField]); 2] = [
        ("calender", Some("calendar"), &[SearchField::Name, SearchField::Description]),
        ("appointment", None, &[SearchField::Description]),
    ];
    assert_eq!(found, expected);
    assert_eq!((hits[0].score, hits[0].query), (1.0, 0));
}

#[test]
fn each_query_gets_its_share_and_no_tool_comes_twice() {
    let index = sample_index(RankingWeights::default());
    let hits = index.search(&["file", "mail", "file"], 3);
    let found: Vec<(&str, usize)> =
        names(&hits).into_iter().zip(hits.iter().map(|hit| hit.query)).collect();
    assert_eq!(found, [("read_file", 0), ("send_mail", 1), ("delete_file", 2)]);
    // The best results of one query alone would leave none to the other.
    let alone = index.search(&["file"], 2);
    assert_eq!(names(&alone), ["read_file", "delete_file"]);
    let both = index.search(&["file", "mail"], 2);
    assert_eq!(names(&both), ["read_file", "send_mail"]);
}

#[test]
fn bounds_hold_for_any_request() {
    let index = sample_index(RankingWeights::default());
    let none: [&str; 0] = [];
    assert_eq!(index.search(&none, 5), []);
    assert_eq!(index.search(&["file"], 0), []);
    assert_eq!(index.search(&["", "?!", "\u{0}"], 5), []);
    let long = "file ".repeat(100_000) + "mail";
    assert_eq!(first(&index, &long), "read_file");
    let many = vec!["file"; 1_000];
    assert!(index.search(&many, usize::MAX).len() <= sample_tools().len());
    assert_eq!(SearchIndex::build(&[]).search(&["file"], 5), []);
}

/// Words of random tools and queries.
const WORDS: [&str; 14] = [
    "file",
    "files",
    "read",
    "weather",
    "city",
    "getCity",
    "send_mail",
    "mail",
    "the",
    "issue",
    "calendar",
    "天气",
    "42",
    "repository",
];

fn random_text() -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(&WORDS[..]), 0..8)
        .prop_map(|words| words.join(" "))
}

fn random_tools() -> impl Strategy<Value = Vec<(String, String)>> {
    proptest::collection::vec((random_text(), random_text()), 1..12)
}

fn analyze_random((name, description): &(String, String)) -> Arc<AnalyzedTool> {
    let text = ToolText { name, description, ..ToolText::default() };
    Arc::new(AnalyzedTool::from_text(&text))
}

proptest! {
    /// The ranking of a view is the one that a plain scorer makes of the view's tools alone, in the
    /// presence of any other tools.
    #[test]
    fn a_view_is_ranked_by_its_own_tools_alone(
        tools in random_tools(),
        visible in proptest::collection::vec(any::<bool>(), 12),
        query in random_text(),
    ) {
        let all: Vec<_> = tools.iter().map(analyze_random).collect();
        // Another view's index is built first from the same analyzed tools.
        let everything = SearchIndex::build(&all);
        prop_assert_eq!(everything.len(), tools.len());
        let shared: Vec<_> = all.iter().zip(&visible).filter(|(_, seen)| **seen).map(|(it, _)| Arc::clone(it)).collect();
        let own: Vec<_> = tools.iter().zip(&visible).filter(|(_, seen)| **seen).map(|(it, _)| analyze_random(it)).collect();
        for weights in [RankingWeights::default(), RankingWeights::default().lexical_only()] {
            let (one, other) = (
                SearchIndex::build_with(&shared, weights.clone()).search(&[&query], 20),
                SearchIndex::build_with(&own, weights).search(&[&query], 20),
            );
            prop_assert_eq!(one, other);
        }
        let mut weights = RankingWeights::default().lexical_only();
        weights.clause_weight = 0.0;
        let index = SearchIndex::build_with(&shared, weights.clone());
        let expected = naive_ranking::scores(&own, StatisticTools::all_of(&own), &query, &weights);
        let hits = index.search(&[&query], 20);
        for hit in &hits {
            prop_assert!((hit.score - expected[hit.position]).abs() < 1e-4, "{hits:?} {expected:?}");
        }
        let found = expected.iter().filter(|score| **score > 0.021).count();
        prop_assert!(hits.len() >= found, "{hits:?} {expected:?}");
    }

    /// Any text is searched without a panic, and every result says what it is.
    #[test]
    fn any_text_is_searched(query in ".{0,200}", name in ".{0,60}", description in ".{0,200}") {
        let tools = vec![analyze_random(&(name, description)), analyze_random(&("a b".into(), query.clone()))];
        for hit in SearchIndex::build(&tools).search(&[&query], 5) {
            prop_assert!(hit.position < 2 && hit.score > 0.0 && hit.score <= 1.0);
        }
    }
}
