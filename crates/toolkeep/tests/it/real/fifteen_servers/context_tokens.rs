//! Measures the tokens of tools that an agent pays before its first call, in each mode of
//! `tools/list`, on the fifteen servers: bytes as sent, counted with the vocabulary `o200k`.

use serde_json::{Value, json};
use tiktoken_rs::o200k_base_singleton;

use super::gateway_peer::{GatewayPeer, Revision};
use super::{BackingServices, EVERYTHING, Side, TOOLS, all_are_up, server_list, trusted_sources};
use crate::support::installation::Installation;
use crate::support::process_marks::{marked_processes, wait_until};
use crate::support::server_process::{READY_LIMIT, spawn_server};

/// Tools, bytes and tokens of one list, and the tokens of the same tools in the compact form of search
/// results.
#[derive(Debug, Clone, Copy)]
struct ListCost {
    tools: usize,
    bytes: usize,
    tokens: usize,
    compact_tokens: usize,
}

fn count_tokens(text: &str) -> usize {
    o200k_base_singleton().encode_ordinary(text).len()
}

/// Tokens of the compact form of a listed tool.
fn compact_tokens(listed: &Value) -> usize {
    let description = listed["description"].as_str().unwrap_or_default();
    let tool = testkit::read_only_tool("compact", description, &listed["inputSchema"]);
    let name = listed["name"].as_str().unwrap();
    count_tokens(search::compact_definition(name, &tool).as_str())
}

/// Costs of the definitions at an endpoint, all pages, of which `counts` selects some by name.
async fn list_cost(door: &mut GatewayPeer, counts: impl Fn(&str) -> bool) -> ListCost {
    let mut cost = ListCost { tools: 0, bytes: 0, tokens: 0, compact_tokens: 0 };
    let mut asked = json!({});
    loop {
        let page = door.ask("tools/list", asked).await.unwrap();
        for tool in super::raw_json::items(page.get(), "tools") {
            let read: Value = serde_json::from_str(tool.get()).unwrap();
            if counts(read["name"].as_str().unwrap()) {
                cost.tools += 1;
                cost.bytes += tool.get().len();
                cost.tokens += count_tokens(tool.get());
                cost.compact_tokens += compact_tokens(&read);
            }
        }
        let page: Value = serde_json::from_str(page.get()).unwrap();
        let Some(next) = page["nextCursor"].as_str() else { return cost };
        asked = json!({ "cursor": next });
    }
}

/// A share in per cent, with one decimal.
fn share(tokens: usize, of: usize) -> String {
    let permille = tokens * 1_000 / of;
    format!("{}.{} %", permille / 10, permille % 10)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_pays_few_tokens_before_its_first_call() {
    let home = Installation::new("");
    let (around, side) = (BackingServices::start(&home).await, Side::new(&home, "through"));
    let servers = server_list::all(&around, &side);
    let sources = trusted_sources(&servers, &side);
    home.write("toolkeep.yaml", &json!({ "version": 1, "sources": sources }).to_string());
    let server = spawn_server(&home).wait_until_ready().await;
    all_are_up(&server, servers.len()).await;
    let is_theirs =
        |name: &str| servers.iter().any(|it| name.starts_with(&format!("{}.", it.name)));
    let mut costs = Vec::new();
    println!("| list | tools | bytes | tokens | share |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    for mode in ["list", "deferred", "search"] {
        let mut each = Vec::new();
        for revision in Revision::ALL {
            let mut door = GatewayPeer::open(&server, &format!("?mode={mode}"), revision).await;
            let counts =
                |name: &str| mode == "search" || is_theirs(name) || name == "describe_tools";
            each.push(list_cost(&mut door, counts).await);
        }
        let ListCost { tools, bytes, tokens, compact_tokens } = each[0];
        assert_eq!((tools, bytes), (each[1].tools, each[1].bytes), "{mode}: both revisions");
        costs.push(each[0]);
        let full = costs[0].tokens;
        println!("| {mode} | {tools} | {bytes} | {tokens} | {} |", share(tokens, full));
        if mode == "list" {
            println!(
                "| compact | {tools} | – | {compact_tokens} | {} |",
                share(compact_tokens, full)
            );
        }
    }
    let stopped = server.stop().await.success();
    let ended = wait_until(READY_LIMIT, || marked_processes(&side.mark).is_empty()).await;
    assert!(stopped && ended);
    let [full, deferred, search]: [ListCost; 3] = costs.try_into().unwrap();
    assert_eq!(full.tools, TOOLS + EVERYTHING[1] - EVERYTHING[0]);
    assert_eq!((deferred.tools, search.tools), (full.tools + 1, 3));
    assert!(full.compact_tokens < full.tokens, "{full:?}");
    assert!(deferred.tokens * 100 <= full.tokens * 65, "{deferred:?} of {full:?}");
    assert!(search.tokens <= 1_000, "{search:?}");
}
