//! Tests of a policy that changes, breaks or is half written under load: only complete written
//! policies are active.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::support::installation::Installation;
use crate::support::rest_client::Client;
use crate::support::run_count;
use crate::support::server_process::start_server;

/// Callers that look and call all the time.
const CALLERS: usize = 3;

type Names = BTreeSet<String>;

/// A whole file that leaves these tools.
fn leaves(tools: [&str; 2]) -> String {
    let [one, other] = tools;
    format!(
        "version: 1\npolicy:\n  allow: [{one}, {other}]\n  roles: {{ r: {{ deny: [{one}] }} }}\n"
    )
}

const ONE: [&str; 2] = ["calculator", "echo"];
const OTHER: [&str; 2] = ["get_current_datetime", "echo"];

fn names(tools: [&str; 2]) -> Names {
    tools.map(str::to_owned).into()
}

async fn listed(client: &Client) -> Names {
    let list = client.get("/v1/tools").await.body["tools"].take();
    let tools = list.as_array().cloned().unwrap_or_default();
    tools.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect()
}

/// Looks until it is stopped; answers how often, and what should not have been seen.
async fn look(client: Client, stop: CancellationToken) -> (usize, Vec<Names>) {
    let (mut looks, mut wrong) = (0, Vec::new());
    while !stop.is_cancelled() {
        let seen = listed(&client).await;
        if seen != names(ONE) && seen != names(OTHER) {
            wrong.push(seen);
        }
        // Tools that both versions allow are listed at every moment.
        let reply = client.call("echo", &json!({ "message": "x" })).await;
        if reply.status != 200 {
            wrong.push([reply.body.to_string()].into());
        }
        looks += 1;
    }
    (looks, wrong)
}

fn put(home: &Installation, text: &str) {
    home.write("toolkeep.new", text);
    fs::rename(home.path("toolkeep.new"), home.config()).unwrap();
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let since = Instant::now();
    while !holds().await {
        assert!(since.elapsed() < Duration::from_mins(1), "not within a minute: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// The reported problem, if any.
async fn fault(owner: &Client) -> String {
    owner
        .find_source("configuration")
        .await
        .map(|source| source["problems"].to_string())
        .unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_changes_all_the_time_is_always_one_whole_policy() {
    let count = run_count(60, 1_000);
    let home = Installation::new(&leaves(ONE));
    let server = start_server(&home).await;
    let owner = server.owner();
    until("the first policy", async || listed(&owner).await == names(ONE)).await;
    let stop = CancellationToken::new();
    let mut looking = JoinSet::new();
    for _ in 0..CALLERS {
        looking.spawn(look(server.agent(), stop.clone()));
    }
    let mut now = ONE;
    for n in 0..count {
        let next = if now == ONE { OTHER } else { ONE };
        let (whole, broken) =
            (leaves(next), leaves(next).replace("deny: [", "deny: [group:nope, "));
        let half = |cut: usize| whole.split_at(whole.len() - cut).0.to_owned();
        let wrong = match n % 5 {
            1 => Some((broken, ":4:24\"", "unknown group `nope`")),
            // Half a line, and half a file that would be a whole one without the policy.
            2 => Some((half(6), "", "")),
            3 => Some(("version: 1\n".to_owned(), ":1:1\"", "`policy` section was removed")),
            _ => None,
        };
        if let Some((text, place, told)) = wrong {
            if n % 2 == 0 {
                home.write("toolkeep.yaml", &text);
            } else {
                put(&home, &text);
            }
            until(told, async || {
                let fault = fault(&owner).await;
                !fault.is_empty() && fault.contains(place) && fault.contains(told)
            })
            .await;
            assert_eq!(listed(&owner).await, names(now), "a faulty policy was taken");
        }
        put(&home, &whole);
        until("the new policy", async || listed(&owner).await == names(next)).await;
        until("no fault", async || fault(&owner).await.is_empty()).await;
        now = next;
    }
    stop.cancel();
    let seen = looking.join_all().await;
    let looks: usize = seen.iter().map(|(looks, _)| looks).sum();
    println!("policy reload: {count} policies under {looks} looks");
    assert!(seen.iter().all(|(looks, wrong)| *looks > 0 && wrong.is_empty()), "{seen:?}");
    // Control: without the policy there is more to be seen.
    put(&home, "version: 1\npolicy: {}\n");
    until("no policy", async || listed(&owner).await.len() > 2).await;
    assert!(server.stop().await.success());
}

/// Two configurations with different dependencies of every tool file: categories, and settings of
/// built-in tools.
fn stands_on(own: bool) -> String {
    let (categories, enabled) = if own { ("[mine]", "false") } else { ("[]", "true") };
    format!(
        "version: 1\nsources:\n  - {{ name: local, tools: ./tools.yaml }}\npolicy: {{ own_categories: {categories} }}\n\
         builtins: {{ tools: {{ json_query: {{ enabled: {enabled} }} }} }}\n"
    )
}

/// One plain tool, one bound to a built-in tool, and one with a problem while its category is not there.
const STANDING: &str = "\
version: 1
tools:
  - name: plain
    description: d
    parameters: { type: object }
    implementation: { type: mock, mock_response: 1 }
  - name: bound
    description: d
    parameters: { type: object, properties: { expression: { type: string } } }
    implementation: { type: builtin, handler: math_eval }
  - name: marked
    description: d
    category: mine
    parameters: { type: object }
    implementation: { type: mock, mock_response: 1 }
";

/// Calls what must be there at every moment until it is stopped; answers how often, and what was answered otherwise.
async fn call(client: Client, stop: CancellationToken) -> (usize, Vec<String>) {
    let (mut calls, mut wrong) = (0, Vec::new());
    while !stop.is_cancelled() {
        for (tool, args) in [
            ("plain", json!({})),
            ("bound", json!({ "expression": "6 * 7" })),
            ("echo", json!({ "message": "x" })),
        ] {
            let reply = client.call(tool, &args).await;
            if reply.status != 200 {
                wrong.push(reply.body.to_string());
            }
            calls += 1;
        }
    }
    (calls, wrong)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_tool_is_away_while_what_tool_files_stand_on_changes() {
    let count = run_count(30, 1_000);
    let home = Installation::new(&stands_on(true));
    home.write("tools.yaml", STANDING);
    let server = start_server(&home).await;
    let owner = server.owner();
    until("the first tools", async || listed(&owner).await.contains("marked")).await;
    let stop = CancellationToken::new();
    let mut calling = JoinSet::new();
    for _ in 0..CALLERS {
        calling.spawn(call(server.agent(), stop.clone()));
    }
    for n in 0..count {
        let own = n % 2 == 1;
        put(&home, &stands_on(own));
        // Control: the file was reloaded, and the built-in tools were rebuilt.
        until("the new configuration", async || {
            let local = owner.find_source("local").await.unwrap();
            let is_known = local["problems"].as_array().unwrap().is_empty();
            is_known == own && listed(&owner).await.contains("json_query") != own
        })
        .await;
    }
    stop.cancel();
    let seen = calling.join_all().await;
    let calls: usize = seen.iter().map(|(calls, _)| calls).sum();
    println!("reload: {calls} calls across {count} configurations");
    assert!(seen.iter().all(|(calls, wrong)| *calls > 0 && wrong.is_empty()), "{seen:?}");
    assert!(server.stop().await.success());
}
