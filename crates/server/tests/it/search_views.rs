//! Tests that a search ranks the tools of its key alone: for many keys with different rights, the
//! results are those of an index of the key's tools, which no other tool has touched.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use gateway::CatalogView;
use identity::{KeyDelegation, KeyId, NewKey, Principal};
use search::{AnalyzedTool, SearchIndex, ToolText};
use serde_json::{Value, json};
use server_core::tool_search::SearchRequest;
use testkit::executor::echo_executor;
use tokio::time::Instant;
use tool::{CallerType, PermissionLevel, Tool};

use crate::support::{FixtureServer, tools};

const TOOLS: u64 = 10_000;
/// Groups of tools that a key may call or not.
const GROUPS: u64 = 24;
const RESULTS: usize = 5;
const WORDS: [&str; 40] = [
    "read",
    "write",
    "file",
    "folder",
    "calendar",
    "event",
    "mail",
    "message",
    "weather",
    "forecast",
    "city",
    "map",
    "route",
    "stock",
    "price",
    "chart",
    "table",
    "query",
    "database",
    "issue",
    "branch",
    "merge",
    "review",
    "image",
    "resize",
    "audio",
    "translate",
    "summary",
    "invoice",
    "customer",
    "order",
    "ship",
    "track",
    "user",
    "group",
    "token",
    "zebra",
    "quota",
    "cluster",
    "backup",
];

/// Numbers that look random and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % bound
    }

    fn words(&mut self, number: u64) -> Vec<&'static str> {
        (0..number).map(|_| WORDS[usize::try_from(self.below(40)).unwrap()]).collect()
    }
}

/// Keys, and queries of each; 100,000 queries where full counts are asked for.
fn counts() -> (u64, usize) {
    let is_deep = std::env::var_os("TOOLKEEP_DEEP").is_some();
    if is_deep { (1_000, 100) } else { (8, 25) }
}

fn many_tools(numbers: &mut Numbers) -> Vec<Tool> {
    let tool = |at: u64| {
        let group = numbers.below(GROUPS);
        let name = format!("g{group:02}.{}_{at}", numbers.words(2).join("_"));
        let parameter = numbers.words(1)[0];
        let schema = json!({"type": "object", "properties": {parameter: {"type": "string"}}});
        let length = 4 + numbers.below(8);
        testkit::read_only_tool(&name, &numbers.words(length).join(" "), &schema)
    };
    (0..TOOLS).map(tool).collect()
}

fn analyze(tool: &Tool) -> Arc<AnalyzedTool> {
    Arc::new(AnalyzedTool::from_text(&ToolText {
        name: tool.name.as_str(),
        title: tool.title.as_deref(),
        description: &tool.description,
        input_schema: Some(&tool.input_schema.to_value()),
        source: "s",
        source_description: "",
        categories: &tool.traits.categories,
    }))
}

/// A key that may call the tools of some groups, and these groups.
async fn limited_key(server: &FixtureServer, numbers: &mut Numbers) -> (Principal, BTreeSet<u64>) {
    let share = 1 + numbers.below(9);
    let groups: BTreeSet<u64> = (0..GROUPS).filter(|_| numbers.below(10) < share).collect();
    let mut key = NewKey::for_user(KeyId::new(format!("k{}", numbers.0)).unwrap(), "ann");
    key.level = PermissionLevel::User;
    key.delegations = vec![KeyDelegation {
        delegated_by: String::new(),
        allowed_tools: Some(groups.iter().map(|it| format!("g{it:02}.*")).collect()),
        denied_tools: Vec::new(),
        is_read_only: false,
        denies_network: false,
        is_created_key: false,
    }];
    (server.client_and_principal(key).await.1, groups)
}

fn searched(server: &FixtureServer, view: &CatalogView, query: &str) -> Vec<(String, f64)> {
    let queries = vec![query.to_owned()];
    let request = SearchRequest { queries, limit: RESULTS, budget: None };
    // Without a sentence model there is nothing to wait for.
    let reply = server.state.tool_search.search_view(view, None, &request).now_or_never().unwrap();
    let reply: Value = serde_json::to_value(&reply).unwrap();
    let results = reply["results"].as_array().unwrap().iter();
    let pair =
        |it: &Value| (it["name"].as_str().unwrap().to_owned(), it["score"].as_f64().unwrap());
    results.map(pair).collect()
}

fn is_same(found: &[(String, f64)], expected: &[(&str, f64)]) -> bool {
    let pairs = found.iter().zip(expected);
    found.len() == expected.len()
        && pairs.into_iter().all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() < 2e-3)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_key_is_ranked_as_if_no_other_tool_existed() {
    let mut numbers = Numbers(43);
    let all = many_tools(&mut numbers);
    let analyzed: Vec<_> = all.iter().map(analyze).collect();
    let offers = all.iter().map(|it| tools::tool_offer(it.clone(), echo_executor())).collect();
    let server = FixtureServer::with_offers(offers).await;
    let position = |name: &str| {
        let number = name.rsplit_once('_').unwrap().1;
        number.parse::<usize>().unwrap()
    };
    let everything = SearchIndex::build(&analyzed);
    let (keys, queries) = counts();
    let (mut searches, mut filtered_differs) = (0, 0);
    for _ in 0..keys {
        let (principal, groups) = limited_key(&server, &mut numbers).await;
        let view = server.gateway.view_for(&principal, CallerType::Direct);
        let shown: Vec<&str> = view.list_tools().map(|entry| entry.name.as_str()).collect();
        let allowed = |tool: &&Tool| {
            groups.iter().any(|it| tool.name.as_str().starts_with(&format!("g{it:02}.")))
        };
        let expected: BTreeSet<&str> =
            all.iter().filter(allowed).map(|it| it.name.as_str()).collect();
        assert_eq!(shown.iter().copied().collect::<BTreeSet<_>>(), expected, "the view itself");
        let own = shown.iter().map(|name| Arc::clone(&analyzed[position(name)]));
        let alone = SearchIndex::build(&own.collect::<Vec<_>>());
        for _ in 0..queries {
            let length = 1 + numbers.below(5);
            let query = numbers.words(length).join(" ");
            let found = searched(&server, &view, &query);
            let hits = alone.search(&[&query], RESULTS);
            let wanted: Vec<(&str, f64)> =
                hits.iter().map(|hit| (shown[hit.position], f64::from(hit.score))).collect();
            assert!(is_same(&found, &wanted), "`{query}`: {found:?}, expected {wanted:?}");
            let every = everything.search(&[&query], 100);
            let kept = every.iter().map(|hit| all[hit.position].name.as_str());
            let kept: Vec<&str> = kept.filter(|it| expected.contains(it)).take(RESULTS).collect();
            filtered_differs += usize::from(
                kept.len() == RESULTS && !kept.iter().eq(wanted.iter().map(|it| &it.0)),
            );
            searches += 1;
        }
    }
    // Control: an index of all tools with a filter ranks by what hidden tools say.
    assert!(filtered_differs > 0, "{filtered_differs} of {searches}");
    println!("{searches} searches of {keys} keys: 0 differences; {filtered_differs} with a filter");
}

/// Names of each sample, and rounds of which the shortest time counts.
const SAMPLE: usize = 200;
const ROUNDS: usize = 5;

/// A word of letters that no language and no other tool has.
fn rare_word(numbers: &mut Numbers) -> String {
    (0..10).map(|_| char::from(b'a' + u8::try_from(numbers.below(26)).unwrap())).collect()
}

/// Shortest times of searching by each name of both samples, which take turns.
fn shortest_times(samples: [&[String]; 2], search: impl Fn(&str)) -> [Vec<Duration>; 2] {
    let mut times = [(); 2].map(|()| vec![Duration::MAX; SAMPLE]);
    for round in 0..ROUNDS {
        for at in 0..SAMPLE {
            for turn in 0..2 {
                let sample = (turn + at + round) % 2;
                let begun = Instant::now();
                search(&samples[sample][at]);
                times[sample][at] = times[sample][at].min(begun.elapsed());
            }
        }
    }
    times
}

/// The rank-sum statistic of two samples of one size (Mann and Whitney), in standard deviations.
fn rank_sum_deviation([a, b]: &[Vec<Duration>; 2]) -> f64 {
    let wins = |one: &Duration| {
        let count = |order: Ordering| b.iter().filter(|other| (*other).cmp(one) == order).count();
        // Doubled, so that a tie is half a win.
        2 * count(Ordering::Less) + count(Ordering::Equal)
    };
    let number = |count: usize| f64::from(u32::try_from(count).unwrap());
    let statistic = number(a.iter().map(wins).sum()) / 2.0;
    let (n, m) = (number(a.len()), number(b.len()));
    (statistic - n * m / 2.0) / (n * m * (n + m + 1.0) / 12.0).sqrt()
}

/// Two samples of names: of tools that the key may not see, and of tools that do not exist. The
/// statistic is below four deviations in all but one of 15,000 runs if they cannot be told apart.
#[tokio::test]
async fn names_of_hidden_tools_take_as_long_as_names_that_no_tool_has() {
    let mut numbers = Numbers(7);
    let [hidden, absent] =
        [0, 1].map(|_| (0..SAMPLE).map(|_| rare_word(&mut numbers)).collect::<Vec<_>>());
    let schema = json!({"type": "object"});
    let shown = (0..1_000).map(|at| {
        let description = numbers.words(8).join(" ");
        testkit::read_only_tool(
            &format!("g00.{}_{at}", numbers.words(2).join("_")),
            &description,
            &schema,
        )
    });
    let mut all: Vec<Tool> = shown.collect();
    all.extend(hidden.iter().map(|name| {
        let text = format!("{name} {}", numbers.words(8).join(" "));
        testkit::read_only_tool(&format!("g01.{name}"), &text, &schema)
    }));
    let offers = all.iter().map(|it| tools::tool_offer(it.clone(), echo_executor())).collect();
    let server = FixtureServer::with_offers(offers).await;
    let mut key = NewKey::for_user(KeyId::new("narrow").unwrap(), "ann");
    key.level = PermissionLevel::User;
    key.delegations = vec![KeyDelegation {
        delegated_by: String::new(),
        allowed_tools: Some(vec!["g00.*".to_owned()]),
        denied_tools: Vec::new(),
        is_read_only: false,
        denies_network: false,
        is_created_key: false,
    }];
    let principal = server.client_and_principal(key).await.1;
    let view = server.gateway.view_for(&principal, CallerType::Direct);
    assert_eq!(view.list_tools().count(), 1_000);
    let samples = [hidden.as_slice(), absent.as_slice()];
    let times = shortest_times(samples, |name| drop(searched(&server, &view, name)));
    let deviation = rank_sum_deviation(&times);
    // Control: an index of all tools, of which hidden ones are taken out afterwards.
    let everything = SearchIndex::build(&all.iter().map(analyze).collect::<Vec<_>>());
    let naive = shortest_times(samples, |name| {
        let hits = everything.search(&[name], RESULTS);
        let kept = hits.iter().filter(|hit| all[hit.position].name.as_str().starts_with("g00."));
        std::hint::black_box(kept.count());
    });
    let control = rank_sum_deviation(&naive);
    println!("{deviation:.1} deviations; {control:.1} of an index of all tools");
    assert!(control.abs() > 4.0, "the control: {control:.1}");
    assert!(deviation.abs() < 4.0, "{deviation:.1}");
}
