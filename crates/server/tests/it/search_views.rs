//! Tests that a search ranks the tools of its key alone: for many keys with different rights, the
//! results are those of an index of the key's tools, which no other tool has touched.

use std::collections::BTreeSet;
use std::sync::Arc;

use gateway::CatalogView;
use identity::{KeyDelegation, KeyId, NewKey, Principal};
use search::{AnalyzedTool, SearchIndex, ToolText};
use serde_json::{Value, json};
use server_core::tool_search::SearchRequest;
use testkit::executor::echo_executor;
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
    let reply = server.state.tool_search.search_view(view, &request);
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
    let everything = SearchIndex::build(analyzed.clone());
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
        let own = shown.iter().map(|name| Arc::clone(&analyzed[position(name)])).collect();
        let alone = SearchIndex::build(own);
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
