//! Tests of the modes of `tools/list`: which one a request gets, and that none changes what may be
//! called.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use server_core::{ListingMode, ListingOptions};
use testkit::executor::echo_executor;
use tool::{DeferMode, PermissionLevel};

use crate::support::client::{message, modern_message};
use crate::support::{Client, FixtureServer, ServerSetup, tools};

const SEARCH_TOOLS: [&str; 3] = ["search_tools", "describe_tools", "call_tool"];

async fn server_with(listing_options: ListingOptions) -> FixtureServer {
    let offers = tools::standard_offers();
    FixtureServer::with_setup(ServerSetup { offers, listing_options, ..ServerSetup::default() })
        .await
}

async fn list(client: &Client) -> Vec<Value> {
    let request = message("tools/list", json!({}));
    let result = client.legacy_request(&request).await.expect_ok()["result"].clone();
    let modern = client.modern_request("tools/list", json!({})).await.expect_ok();
    assert_eq!(result["tools"], modern["result"]["tools"], "both eras list the same");
    result["tools"].as_array().unwrap().clone()
}

fn names(listed: &[Value]) -> Vec<&str> {
    listed.iter().map(|it| it["name"].as_str().unwrap()).collect()
}

async fn call(client: &Client, name: &str, arguments: &Value) -> Value {
    let params = json!({"name": name, "arguments": arguments});
    client.modern_request("tools/call", params).await.json()
}

#[tokio::test]
async fn a_key_has_a_mode_and_the_address_overrides_it() {
    let options = ListingOptions {
        mode: ListingMode::Search,
        key_modes: BTreeMap::from([("plain".to_owned(), ListingMode::List)]),
        ..ListingOptions::default()
    };
    let server = server_with(options).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    assert_eq!(names(&list(&ann).await), SEARCH_TOOLS);
    let all = list(&ann.with_query("?mode=list")).await;
    assert!(names(&all).contains(&"notes.append") && !names(&all).contains(&"needs.owner"));
    let plain = server
        .client_with(|key| {
            key.id = identity::KeyId::new("plain").unwrap();
            key.level = PermissionLevel::User;
        })
        .await;
    assert_eq!(names(&list(&plain).await), names(&all));
    assert_eq!(names(&list(&plain.with_query("?mode=search")).await), SEARCH_TOOLS);
    // A single source lists its tools in any case.
    let source = ann.with_endpoint("/mcp/s");
    assert!(list(&source).await.len() > 3);
    let request = message("tools/list", json!({}));
    for mode in ["search", "deferred", "auto"] {
        let refused = source.with_query(&format!("?mode={mode}")).legacy_request(&request).await;
        assert!(refused.error().2.ends_with(&format!("use `/mcp?mode={mode}`")), "{mode}");
    }
}

#[tokio::test]
async fn tools_that_are_always_listed_stand_beside_the_search_tools() {
    let always = ["notes.append", "needs.owner", "nothing", "region", "call_tool"];
    let options = ListingOptions {
        always_listed: always.map(str::to_owned).to_vec(),
        ..ListingOptions::default()
    };
    let server = server_with(options).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let searching = ann.with_query("?mode=search");
    let listed = list(&searching).await;
    let expected = [&SEARCH_TOOLS[..], &["notes.append", "region"]].concat();
    assert_eq!(names(&listed), expected, "neither hidden nor unknown tools");
    let whole = list(&ann).await;
    let of = |all: &[Value]| all.iter().find(|it| it["name"] == "notes.append").cloned().unwrap();
    assert_eq!(of(&listed), of(&whole));
    let called = call(&searching, "notes.append", &json!({"n": 3})).await;
    assert_eq!(called["result"]["structuredContent"], json!({"n": 3}));
    // Its schema is known, so its headers are checked, and not where another tool calls it.
    let region = json!({"region": "north"});
    assert_eq!(call(&searching, "region", &region).await["error"]["code"], -32_020);
    let inner = json!({"name": "region", "arguments": region});
    let through = call(&searching, "call_tool", &inner).await;
    assert_eq!(through["result"]["structuredContent"], region, "{through}");
}

#[tokio::test]
async fn a_source_is_deferred_in_every_list_or_in_none() {
    let options = ListingOptions {
        always_listed: vec!["late.named".to_owned()],
        ..ListingOptions::default()
    };
    let server = server_with(options).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let before = list(&ann).await;
    let offer = |name: &str| tools::tool_offer(tools::test_tool(name), echo_executor());
    let early = vec![offer("early.one"), offer("early.two")];
    server.add_mcp_source_with("early", early, DeferMode::Never).await;
    let loaded = ["early.one", "early.two"];
    let listed = list(&ann).await;
    assert_eq!(names(&listed), [&names(&before)[..], &loaded].concat(), "nothing is deferred");
    assert_eq!(call(&ann, "search_tools", &json!({})).await["error"]["code"], -32_602, "control");
    let late = vec![offer("late.one"), offer("late.named"), offer("call_tool")];
    server.add_mcp_source_with("late", late, DeferMode::Always).await;
    // The complete list has the search tools as soon as it leaves something out.
    let listed = list(&ann).await;
    let beside = [&names(&before)[..], &loaded, &["late.named"]].concat();
    assert_eq!(names(&listed), [&SEARCH_TOOLS[..], &beside].concat());
    let asked = json!({"queries": ["late one"], "limit": 1});
    let found = call(&ann, "search_tools", &asked).await;
    assert_eq!(found["result"]["structuredContent"]["results"][0]["name"], "late.one", "{found}");
    for called in [
        call(&ann, "late.one", &json!({"n": 1})).await,
        call(&ann, "call_tool", &json!({"name": "late.one", "arguments": {"n": 1}})).await,
    ] {
        assert_eq!(called["result"]["structuredContent"], json!({"n": 1}), "{called}");
    }
    // Tools of a source that is never deferred stand beside the search tools, and are described in full.
    let searching = list(&ann.with_query("?mode=search")).await;
    let beside = [&loaded[..], &["late.named"]].concat();
    assert_eq!(names(&searching), [&SEARCH_TOOLS[..], &beside].concat());
    let deferred = list(&ann.with_query("?mode=deferred")).await;
    let open = |name: &str| {
        let tool = deferred.iter().find(|it| it["name"] == name).unwrap();
        tool["inputSchema"] == json!({"type": "object"})
    };
    let open: Vec<bool> =
        ["early.one", "late.named", "late.one", "notes.append"].map(open).to_vec();
    assert_eq!(open, [false, false, true, true]);
    let of_source = list(&ann.with_endpoint("/mcp/late")).await;
    assert_eq!(of_source.len(), 3, "its own endpoint lists all its tools");
    // Whoever sees no tool of the source needs no search.
    server.set_guest_sources(Some(&["s", "early"])).await;
    assert_eq!(names(&list(&ann).await), [&names(&before)[..], &loaded].concat());
}

#[tokio::test]
async fn a_deferred_list_has_every_name_and_refused_arguments_return_the_schema() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let (whole, deferring) = (list(&ann).await, ann.with_query("?mode=deferred"));
    let listed = list(&deferring).await;
    assert_eq!(names(&listed), [&["describe_tools"][..], &names(&whole)].concat());
    for tool in &listed[1..] {
        assert_eq!(tool["inputSchema"], json!({"type": "object"}), "{tool}");
    }
    let wrong = call(&deferring, "notes.append", &json!({"n": 12})).await;
    let text = wrong["result"]["content"][0]["text"].as_str().unwrap();
    let (_, schema) = text.split_once("must fit this schema: ").unwrap();
    let schema: Value = serde_json::from_str(schema).unwrap();
    let full = whole.iter().find(|it| it["name"] == "notes.append").unwrap();
    assert_eq!(schema, full["inputSchema"]);
    assert!(text.starts_with("invalid_arguments: ") && wrong["result"]["isError"] == true);
    assert_eq!(server.recorded_intents().len(), 0, "the source was not called");
    let plain = call(&ann, "notes.append", &json!({"n": 12})).await;
    assert!(!plain.to_string().contains("must fit this schema"), "control: {plain}");
    let right = call(&deferring, "notes.append", &json!({"n": 4})).await;
    assert_eq!(right["result"]["structuredContent"], json!({"n": 4}));
    // The definition can be read before the call; hidden tools are unknown.
    let asked = json!({"names": ["notes.append", "needs.owner"]});
    let described = call(&deferring, "describe_tools", &asked).await;
    let described = &described["result"]["structuredContent"];
    assert_eq!(described["tools"][0]["inputSchema"], full["inputSchema"]);
    assert_eq!(described["unknown"], json!(["needs.owner"]));
    assert_eq!(call(&deferring, "needs.owner", &json!({})).await["error"]["code"], -32_602);
    assert_eq!(call(&ann, "describe_tools", &asked).await["error"]["code"], -32_602, "control");
    // A client that has not seen the schema cannot know the headers of its parameters.
    let region = json!({"region": "north"});
    let called = call(&deferring, "region", &region).await;
    assert_eq!(called["result"]["structuredContent"], region, "{called}");
    assert_eq!(call(&ann, "region", &region).await["error"]["code"], -32_020, "control");
}

#[tokio::test]
async fn auto_searches_for_clients_that_do_not_and_only_above_the_bound() {
    let auto = |auto_tokens| ListingOptions {
        mode: ListingMode::Auto,
        auto_tokens,
        ..ListingOptions::default()
    };
    let (small, large) = (server_with(auto(20)).await, server_with(auto(10_000)).await);
    let ann = large.agent_client("ann", PermissionLevel::User).await;
    assert!(names(&list(&ann).await).contains(&"notes.append"), "it fits the bound");
    let bob = small.agent_client("bob", PermissionLevel::User).await;
    assert_eq!(names(&list(&bob).await), SEARCH_TOOLS);
    // The third client searches above 30 tools only, and these are fewer.
    for (name, searches_itself) in
        [("claude-code", true), ("openai-mcp", true), ("github-copilot-developer", false)]
    {
        let info = json!({"name": name, "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
        let started = bob.legacy_request(&message("initialize", params)).await;
        let session = bob.with_header("mcp-session-id", started.header("mcp-session-id").unwrap());
        let request = message("tools/list", json!({}));
        let legacy = session.legacy_request(&request).await.expect_ok();
        let mut request = modern_message("tools/list", json!({}));
        request["params"]["_meta"]["io.modelcontextprotocol/clientInfo"] = info;
        let modern = bob.modern_message(&request).await.expect_ok();
        for reply in [legacy, modern] {
            let listed = reply["result"]["tools"].as_array().unwrap();
            assert_eq!(names(listed).contains(&"notes.append"), searches_itself, "{name}");
        }
        let searched = session
            .legacy_request(&message(
                "tools/call",
                json!({"name": "search_tools", "arguments": {"queries": ["notes"]}}),
            ))
            .await
            .expect_ok();
        assert_eq!(searched["error"].is_object(), searches_itself, "{name}: {searched}");
    }
}
