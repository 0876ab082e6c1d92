//! Tests of learning: a successful call after a search raises the tool for the same words, in the same
//! organisation alone, and nothing of it shows what others searched or what a key may not see.

use std::sync::Arc;

use gateway::ApprovalSettings;
use serde_json::{Value, json};
use server_core::ListingOptions;
use server_core::tool_search::SearchLearning;
use store::MemoryStore;
use testkit::executor::{MockExecutor, echo_executor};
use tool::store::VersionedValue;
use tool::{ErrorCode, ExecuteError, Offer, Org, PermissionLevel, SafetyLevel, Store};

use crate::support::{Client, FixtureServer, ServerSetup, tools};

/// A query with the name of another tool, and a word that no tool has.
const QUERY: &str = "alpha+frobnicate";

/// Number of tools that only administrators see: more than one stem raises.
const HIDDEN_TOOLS: usize = search::MAX_STEM_TOOLS + 1;

fn hidden_name(number: usize) -> String {
    let letter = |it: usize| char::from(b'a' + u8::try_from(it).unwrap());
    format!("hidden{}{}", letter(number / 26), letter(number % 26))
}

fn offers() -> Vec<Offer> {
    let tool = |name: &str, words: &str| {
        let number = json!({"type": "integer", "maximum": 10});
        let schema = json!({"type": "object", "properties": {"n": number}});
        testkit::read_only_tool(name, &format!("Does {words}."), &schema)
    };
    let mut offers: Vec<Offer> = ["alpha", "beta", "gamma", "delta"]
        .map(|name| tools::tool_offer(tool(name, &format!("what {name} does")), echo_executor()))
        .to_vec();
    let fails = |_| Err(ExecuteError::not_sent(ErrorCode::UpstreamLost, "it is broken"));
    let mut held = tool("epsilon", "what epsilon does");
    held.traits.safety = SafetyLevel::Dangerous;
    offers.push(tools::tool_offer(held, echo_executor()));
    let broken = Arc::new(MockExecutor::new(fails));
    offers.push(tools::tool_offer(tool("broken", "nothing"), broken));
    for number in 0..HIDDEN_TOOLS {
        let mut hidden = tool(&hidden_name(number), "secret things");
        hidden.traits.min_level = PermissionLevel::Admin;
        offers.push(tools::tool_offer(hidden, echo_executor()));
    }
    offers
}

/// A server on a store that learns in some organisations.
async fn server_on(store: &Arc<dyn Store>, orgs: &[&str]) -> FixtureServer {
    let learning_orgs = orgs.iter().map(|org| (*org).to_owned()).collect();
    let listing_options = ListingOptions { learning_orgs, ..ListingOptions::default() };
    let learning_store = Some(Arc::clone(store));
    let setup = ServerSetup {
        offers: offers(),
        listing_options,
        learning_store,
        approval_settings: Some(ApprovalSettings::default()),
        ..ServerSetup::default()
    };
    let server = FixtureServer::with_setup(setup).await;
    learning(&server).load_stored().await.unwrap();
    let owner = server.owner_client().await;
    for org in ["acme", "umbrella"] {
        owner.post("/v1/orgs", &json!({"name": org})).await.expect_ok();
        let tools = json!({"tools": ["*"]});
        owner.put(&format!("/v1/orgs/{org}/tools"), &tools).await.expect_ok();
    }
    server
}

fn memory_store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

fn learning(server: &FixtureServer) -> &SearchLearning {
    server.state.components.search_learning.as_deref().unwrap()
}

async fn agent(server: &FixtureServer, org: &str, subject: &str) -> Client {
    agent_with(server, org, subject, PermissionLevel::User).await
}

async fn agent_with(
    server: &FixtureServer,
    org: &str,
    subject: &str,
    level: PermissionLevel,
) -> Client {
    let change = |key: &mut identity::NewKey| {
        (key.org, key.subject, key.level) = (Org::new(org).unwrap(), subject.to_owned(), level);
    };
    server.client_with(change).await
}

async fn search(client: &Client, query: &str) -> Value {
    client.get(&format!("/v1/search?q={query}&k=10")).await.expect_ok()
}

async fn call(client: &Client, tool: &str) {
    drop(client.call_tool(tool, json!({})).await);
}

/// Searches for words beside the name of a tool, calls the tool, and waits until that is kept.
async fn teach(server: &FixtureServer, client: &Client, query: &str, tool: &str) {
    search(client, &format!("{query}+{tool}")).await;
    call(client, tool).await;
    learning(server).flush_feedback().await.unwrap();
}

fn result<'a>(reply: &'a Value, tool: &str) -> Option<&'a Value> {
    reply["results"].as_array().unwrap().iter().find(|it| it["name"] == tool)
}

/// Returns the score of a tool; 0 if it was not found.
fn score_of(reply: &Value, tool: &str) -> f64 {
    result(reply, tool).map(|it| it["score"].as_f64().unwrap()).unwrap_or_default()
}

/// Returns the words that count for a tool because they were learned.
fn learned_words(reply: &Value, tool: &str) -> Vec<String> {
    let why = result(reply, tool).map(|it| it["why"].as_array().unwrap().clone());
    let learned = why.unwrap_or_default().into_iter().filter(|it| it["learned"] == true);
    learned.map(|it| it["word"].as_str().unwrap().to_owned()).collect()
}

async fn learned_rows(store: &Arc<dyn Store>) -> Vec<VersionedValue> {
    store.scan_prefix("search-learning/", None, 100).await.unwrap()
}

#[tokio::test]
async fn a_called_tool_rises_for_others_of_its_organisation_and_for_rewordings() {
    let store = memory_store();
    let server = server_on(&store, &["acme"]).await;
    let (ann, bob) = (agent(&server, "acme", "ann").await, agent(&server, "acme", "bob").await);
    let eve = agent(&server, "umbrella", "eve").await;
    let (before, of_eve) = (search(&bob, QUERY).await, search(&eve, QUERY).await);
    assert!(learned_words(&before, "beta").is_empty(), "control: {before}");
    teach(&server, &ann, "frobnicate+the+zzyxquark", "beta").await;
    let found = search(&bob, QUERY).await;
    assert!(score_of(&found, "beta") > score_of(&before, "beta"), "{before} to {found}");
    assert_eq!(found["results"][0]["score"], 1.0);
    assert_eq!(learned_words(&found, "beta"), ["frobnicate"]);
    // Inflections share the stem; another word shares nothing.
    let reworded = search(&bob, "beta+frobnicating").await;
    assert_eq!(learned_words(&reworded, "beta"), ["beta", "frobnicating"], "{reworded}");
    assert!(learned_words(&search(&bob, "alpha+blorptang").await, "beta").is_empty());
    // `why` has the caller's own words alone.
    assert!(!reworded.to_string().contains("zzyxquark"));
    assert_eq!(search(&eve, QUERY).await, of_eve, "another organisation");
}

#[tokio::test]
async fn nothing_is_learned_where_it_is_off() {
    let store = memory_store();
    let server = server_on(&store, &["acme"]).await;
    let (eve, mallory) =
        (agent(&server, "umbrella", "eve").await, agent(&server, "umbrella", "mallory").await);
    let before = search(&mallory, QUERY).await;
    teach(&server, &eve, QUERY, "beta").await;
    assert_eq!(search(&mallory, QUERY).await, before);
    assert!(learned_rows(&store).await.is_empty());
    assert!(!before.to_string().contains("learned"));
    let ann = agent(&server, "acme", "ann").await;
    teach(&server, &ann, QUERY, "beta").await;
    assert_eq!(learned_rows(&store).await.len(), 1, "control: it is on beside it");
    assert_eq!(search(&mallory, QUERY).await, before);
}

#[tokio::test]
async fn each_organisation_learns_for_itself_if_all_do() {
    let store = memory_store();
    let server = server_on(&store, &["*"]).await;
    let (ann, eve) = (agent(&server, "acme", "ann").await, agent(&server, "umbrella", "eve").await);
    let before = search(&eve, QUERY).await;
    teach(&server, &ann, QUERY, "beta").await;
    assert_eq!(search(&eve, QUERY).await, before);
    assert_eq!(learned_words(&search(&ann, QUERY).await, "beta").len(), 2, "control");
}

#[tokio::test]
async fn calls_that_fail_or_are_refused_or_follow_no_search_teach_nothing() {
    let store = memory_store();
    let server = server_on(&store, &["acme"]).await;
    let (ann, bob) = (agent(&server, "acme", "ann").await, agent(&server, "acme", "bob").await);
    teach(&server, &ann, "frobnicate", "broken").await;
    teach(&server, &ann, QUERY, "hiddenaa").await;
    teach(&server, &ann, QUERY, "unknown").await;
    // Bob searched nothing; ann's search is not his.
    call(&bob, "beta").await;
    search(&bob, "delta").await;
    let refused = bob.call_tool("delta", json!({"n": 11})).await;
    assert_ne!(refused.status, 200, "{refused:?}");
    learning(&server).flush_feedback().await.unwrap();
    assert!(learned_rows(&store).await.is_empty());
    teach(&server, &ann, "frobnicate", "delta").await;
    assert_eq!(learned_rows(&store).await.len(), 1, "control");
}

#[tokio::test]
async fn a_tool_that_no_reply_contained_teaches_nothing() {
    let store = memory_store();
    let server = server_on(&store, &["acme"]).await;
    let ann = agent(&server, "acme", "ann").await;
    let search_and_call = async |budget: usize| {
        let path = format!("/v1/search?q={QUERY}+beta&k=10&budget={budget}");
        let reply: Value = ann.get(&path).await.expect_ok();
        call(&ann, "beta").await;
        learning(&server).flush_feedback().await.unwrap();
        (result(&reply, "beta").is_some(), learned_rows(&store).await.len())
    };
    assert_eq!(search_and_call(1).await, (false, 0));
    assert_eq!(search_and_call(10_000).await, (true, 1), "control");
}

#[tokio::test]
async fn one_key_counts_once_and_many_keys_of_a_user_too() {
    let store = memory_store();
    let server = server_on(&store, &["acme"]).await;
    let ann = agent(&server, "acme", "ann").await;
    // A third caller measures: its searches are followed by no call.
    let reader = agent(&server, "acme", "reader").await;
    let score = async || score_of(&search(&reader, "alpha+frobnicate").await, "beta");
    let before = score().await;
    teach(&server, &ann, "frobnicate", "beta").await;
    let once = score().await;
    assert!(once > before, "{before} to {once}");
    let rows = learned_rows(&store).await;
    for _ in 0..100 {
        teach(&server, &ann, "frobnicate", "beta").await;
    }
    let again = agent(&server, "acme", "ann").await;
    teach(&server, &again, "frobnicate", "beta").await;
    assert!((score().await - once).abs() < 1e-9);
    assert_eq!(learned_rows(&store).await, rows, "nothing was written again");
    let bob = agent(&server, "acme", "bob").await;
    teach(&server, &bob, "frobnicate", "beta").await;
    assert!(score().await > once, "control: another caller counts");
}

#[tokio::test]
async fn a_restart_keeps_what_was_learned_and_turning_it_off_removes_it() {
    let store = memory_store();
    let first = server_on(&store, &["acme", "umbrella"]).await;
    let (ann, eve) = (agent(&first, "acme", "ann").await, agent(&first, "umbrella", "eve").await);
    teach(&first, &ann, QUERY, "beta").await;
    teach(&first, &eve, QUERY, "beta").await;
    let second = server_on(&store, &["acme", "umbrella"]).await;
    let ann = agent(&second, "acme", "ann").await;
    assert_eq!(learned_words(&search(&ann, QUERY).await, "beta").len(), 2);
    assert_eq!(learned_rows(&store).await.len(), 2);
    let third = server_on(&store, &["umbrella"]).await;
    assert_eq!(learned_rows(&store).await.len(), 1);
    let eve = agent(&third, "umbrella", "eve").await;
    assert_eq!(learned_words(&search(&eve, QUERY).await, "beta").len(), 2, "control");
    drop(server_on(&store, &[]).await);
    assert!(learned_rows(&store).await.is_empty());
}

#[tokio::test]
async fn what_the_store_has_is_hashes() {
    let store = memory_store();
    let server = server_on(&store, &["acme"]).await;
    let ann = agent(&server, "acme", "ann").await;
    teach(&server, &ann, QUERY, "beta").await;
    let rows = learned_rows(&store).await;
    let text = format!("{} {}", rows[0].key, String::from_utf8_lossy(&rows[0].bytes));
    for word in ["frobnic", "alpha", "acme", "ann", ann.key_id.as_str()] {
        assert!(!text.contains(word), "{word} in {text}");
    }
    assert!(text.contains("beta"), "control: {text}");
}

#[tokio::test]
async fn evidence_of_a_hidden_tool_changes_nothing() {
    let (with, without) = (memory_store(), memory_store());
    let (server, control) =
        (server_on(&with, &["acme"]).await, server_on(&without, &["acme"]).await);
    // Each hidden tool has stronger evidence than the visible one.
    for subject in ["root", "chief"] {
        let admin = agent_with(&server, "acme", subject, PermissionLevel::Admin).await;
        for number in 0..HIDDEN_TOOLS {
            teach(&server, &admin, QUERY, &hidden_name(number)).await;
        }
    }
    for server in [&server, &control] {
        let ann = agent(server, "acme", "ann").await;
        teach(server, &ann, QUERY, "beta").await;
    }
    assert_eq!(learned_rows(&with).await.len(), HIDDEN_TOOLS + 1);
    assert_eq!(learned_rows(&without).await.len(), 1);
    let root = agent_with(&server, "acme", "other", PermissionLevel::Admin).await;
    let found = search(&root, &format!("{QUERY}+hiddenah")).await;
    assert_eq!(learned_words(&found, "hiddenah").len(), 3, "control: a key that sees it: {found}");
    let (bob, other) = (agent(&server, "acme", "bob").await, agent(&control, "acme", "bob").await);
    for query in [QUERY, "hiddenah", "alpha+frobnicate", "secret+things"] {
        assert_eq!(search(&bob, query).await, search(&other, query).await, "{query}");
    }
    let found = search(&bob, QUERY).await;
    assert_eq!(learned_words(&found, "beta").len(), 2, "control: the visible one counts: {found}");
}

#[tokio::test]
async fn servers_of_one_store_add_to_one_anothers_evidence() {
    let store = memory_store();
    let (one, other) = (server_on(&store, &["acme"]).await, server_on(&store, &["acme"]).await);
    let (ann, bob) = (agent(&one, "acme", "ann").await, agent(&other, "acme", "bob").await);
    // Third callers measure: their searches are followed by no call.
    let at_one = agent(&one, "acme", "reader").await;
    let at_other = agent(&other, "acme", "reader").await;
    let score = async |client: &Client| score_of(&search(client, "alpha+frobnicate").await, "beta");
    let before = score(&at_other).await;
    teach(&one, &ann, "frobnicate", "beta").await;
    assert!((score(&at_other).await - before).abs() < 1e-9, "not read yet");
    learning(&other).follow_store().await.unwrap();
    let by_one = score(&at_other).await;
    assert!(by_one > before, "{before} to {by_one}");
    // The other server adds its caller to the row that it did not write.
    teach(&other, &bob, "frobnicate", "beta").await;
    assert!(score(&at_other).await > by_one);
    learning(&one).follow_store().await.unwrap();
    assert!((score(&at_one).await - score(&at_other).await).abs() < 1e-9);
    assert_eq!(learned_rows(&store).await.len(), 1);
}

#[tokio::test]
async fn calls_through_mcp_count_as_those_of_rest() {
    let store = memory_store();
    let server = server_on(&store, &["acme"]).await;
    let (ann, bob) = (agent(&server, "acme", "ann").await, agent(&server, "acme", "bob").await);
    let call_tool = async |name: &str, arguments: Value| {
        let params = json!({"name": name, "arguments": arguments});
        ann.with_query("?mode=search").modern_request("tools/call", params).await.expect_ok();
    };
    let query = format!("{} beta", QUERY.replace('+', " "));
    call_tool("search_tools", json!({"queries": [query], "limit": 10})).await;
    call_tool("call_tool", json!({"name": "beta", "arguments": {}})).await;
    learning(&server).flush_feedback().await.unwrap();
    assert_eq!(learned_words(&search(&bob, QUERY).await, "beta").len(), 2);
}

/// The control is the same call before its approval.
#[tokio::test]
async fn a_call_that_needs_an_approval_counts_when_it_has_run() {
    let store = memory_store();
    let server = server_on(&store, &["acme"]).await;
    let (ann, bob) = (agent(&server, "acme", "ann").await, agent(&server, "acme", "bob").await);
    search(&ann, &format!("{QUERY}+epsilon")).await;
    let held = ann.post("/v1/calls", &json!({"tool": "epsilon", "arguments": {}})).await;
    assert_eq!(held.status, 202, "{held:?}");
    learning(&server).flush_feedback().await.unwrap();
    assert!(learned_words(&search(&bob, QUERY).await, "epsilon").is_empty());
    let id = held.json()["call_id"].as_str().unwrap().to_owned();
    let person = |key: &mut identity::NewKey| {
        (key.org, key.is_agent) = (Org::new("acme").unwrap(), false);
        (key.level, key.rights) =
            (PermissionLevel::Owner, identity::Right::ALL.iter().copied().collect());
    };
    let approver = server.client_with(person).await;
    approver.post(&format!("/v1/approvals/{id}/approve"), &json!({})).await.expect_ok();
    let called = ann.post(&format!("/v1/calls/{id}/resume"), &json!({})).await.expect_ok();
    assert_eq!(called["status"], "succeeded", "{called}");
    learning(&server).flush_feedback().await.unwrap();
    assert_eq!(learned_words(&search(&bob, QUERY).await, "epsilon").len(), 2);
}

#[tokio::test]
async fn searches_and_calls_in_the_messages_of_providers_count_as_those_of_rest() {
    for (format, function) in [("anthropic", "tool_use"), ("openai_responses", "function_call")] {
        let store = memory_store();
        let server = server_on(&store, &["acme"]).await;
        let (ann, bob) = (agent(&server, "acme", "ann").await, agent(&server, "acme", "bob").await);
        let query = format!("{} beta", QUERY.replace('+', " "));
        let arguments = json!({"queries": [query], "limit": 10});
        let (searched, called) = if format == "anthropic" {
            let block = |name: &str, input: &Value| {
                json!({"role": "assistant", "content": [
                    {"type": function, "id": "c1", "name": name, "input": input}]})
            };
            (block("search_tools", &arguments), block("beta", &json!({})))
        } else {
            let item = json!({"type": "tool_search_call", "id": "s1", "call_id": "c1",
                "execution": "client", "status": "completed", "arguments": arguments});
            let call =
                json!({"type": function, "call_id": "c2", "name": "beta", "arguments": "{}"});
            (json!({"output": [item]}), json!({"output": [call]}))
        };
        let path = format!("/v1/calls?format={format}&search=toolkeep");
        let found = ann.post(&path, &searched).await.expect_ok();
        assert!(found["searches"][0]["tools"].as_array().unwrap().contains(&json!("beta")));
        let reply = ann.post(&path, &called).await.expect_ok();
        assert_eq!(reply["calls"][0]["status"], "succeeded", "{reply}");
        learning(&server).flush_feedback().await.unwrap();
        assert_eq!(learned_words(&search(&bob, QUERY).await, "beta").len(), 2, "{format}");
    }
}
