//! Random toolsets and random callers: what each caller is listed and served equals what a model of
//! grants, levels and patterns says.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testkit::executor::echo_executor;
use tool::{PermissionLevel, SourceTrust};

use super::super::random_views::Numbers;
use super::{put, tool_names};
use crate::support::client::message;
use crate::support::{Client, FixtureServer, ServerSetup, tools};

const LEVELS: [PermissionLevel; 3] =
    [PermissionLevel::Guest, PermissionLevel::User, PermissionLevel::Admin];
const ROLES: [&str; 3] = ["red", "green", "blue"];
const SOURCES: [&str; 4] = ["a", "b", "c", "d"];
const TOOLS: usize = 4;

/// Toolsets and callers: a sample, or the full counts.
fn counts() -> (usize, usize) {
    if std::env::var_os("TOOLKEEP_DEEP").is_some() { (40, 100) } else { (6, 8) }
}

struct RandomTool {
    name: String,
    level: PermissionLevel,
}

/// A toolset: its roles, and the tools that its patterns choose, with the names that it gives them.
struct RandomToolset {
    name: String,
    roles: Vec<&'static str>,
    chosen: Vec<(usize, String)>,
}

fn random_toolset(
    number: usize,
    all: &[RandomTool],
    numbers: &mut Numbers,
) -> (RandomToolset, Value) {
    let roles = if numbers.below(5) == 0 { vec!["*"] } else { numbers.some(&ROLES) };
    let sources = numbers.some(&SOURCES);
    let mut entries: Vec<Value> = sources.iter().map(|it| json!(format!("{it}.*"))).collect();
    let (mut chosen, mut names) = (Vec::new(), BTreeSet::new());
    for (index, tool) in all.iter().enumerate() {
        let is_renamed = numbers.below(4) == 0;
        if is_renamed {
            let name = format!("x{number}_{index}");
            entries.push(json!({"pattern": tool.name, "name": name}));
            chosen.push((index, name));
        } else if sources.iter().any(|it| tool.name.starts_with(&format!("{it}."))) {
            chosen.push((index, tool.name.clone()));
        }
    }
    names.extend(chosen.iter().map(|(_, name)| name.clone()));
    assert_eq!(names.len(), chosen.len(), "the model gives each name once");
    let body = json!({"roles": roles, "tools": entries});
    (RandomToolset { name: format!("set{number}"), roles, chosen }, body)
}

async fn bytes(client: &Client, name: &str) -> String {
    let params = json!({"name": name, "arguments": {}});
    client.legacy_request(&message("tools/call", params)).await.text().replace(name, "NAME")
}

#[tokio::test]
async fn each_caller_gets_of_each_toolset_what_a_model_says() {
    let (toolset_count, caller_count) = counts();
    let mut numbers = Numbers(11);
    let server = FixtureServer::with_setup(ServerSetup {
        kind: Some("mcp"),
        trust: Some(SourceTrust::FirstUse),
        ..ServerSetup::default()
    })
    .await;
    let mut all = Vec::new();
    for source in SOURCES {
        let mut offers = Vec::new();
        for number in 0..TOOLS {
            let (name, level) = (format!("{source}.t{number}"), LEVELS[numbers.below(3)]);
            let tool = tools::tool_with(&name, |it| it.traits.min_level = level);
            offers.push(tools::tool_offer(tool, echo_executor()));
            all.push(RandomTool { name, level });
        }
        server.add_mcp_source(source, offers).await;
    }
    let mut toolsets = Vec::new();
    for number in 0..toolset_count {
        let (toolset, body) = random_toolset(number, &all, &mut numbers);
        put(&server, &toolset.name, &body).await;
        toolsets.push(toolset);
    }
    let served = compare_callers(&server, (&all, &toolsets), caller_count, &mut numbers).await;
    assert!(served > 20, "the model and the server agree about something: {served}");
}

/// Compares what random callers get, and returns the number of tools that they were listed.
async fn compare_callers(
    server: &FixtureServer,
    (all, toolsets): (&[RandomTool], &[RandomToolset]),
    caller_count: usize,
    numbers: &mut Numbers,
) -> usize {
    let mut served = 0;
    for caller in 0..caller_count {
        let (level, roles) = (LEVELS[numbers.below(3)], numbers.some(&ROLES));
        let is_bound = numbers.below(3) == 0;
        let own = numbers.below(toolsets.len());
        let client = server
            .client_with(|key| {
                (key.subject, key.level) = (format!("caller{caller}"), level);
                key.roles = roles.iter().map(|&role| role.to_owned()).collect();
                key.toolset = is_bound.then(|| toolsets[own].name.clone());
            })
            .await;
        for (number, toolset) in toolsets.iter().enumerate() {
            let client = client.with_endpoint(&format!("/mcp/{}", toolset.name));
            let granted = toolset.roles.contains(&"*")
                || toolset.roles.iter().any(|role| roles.contains(role));
            if !granted || is_bound && number != own {
                let refused = client.legacy_request(&message("tools/list", json!({}))).await;
                assert_eq!(refused.status, 404, "{}", refused.text());
                continue;
            }
            let visible = toolset.chosen.iter().filter(|(index, _)| level >= all[*index].level);
            let expected: BTreeSet<String> = visible.map(|(_, name)| name.clone()).collect();
            let names: BTreeSet<String> = tool_names(&client).await.into_iter().collect();
            assert_eq!(names, expected, "caller {caller}, {}", toolset.name);
            served += names.len();
            let unknown = bytes(&client, "none").await;
            for (index, tool) in all.iter().enumerate() {
                let offered = toolset.chosen.iter().find(|(chosen, _)| *chosen == index);
                let name = offered.map_or(&tool.name, |(_, name)| name);
                let is_unknown = bytes(&client, name).await == unknown;
                assert_eq!(!is_unknown, expected.contains(name), "{name} of {}", toolset.name);
            }
        }
    }
    served
}
