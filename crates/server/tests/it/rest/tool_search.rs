//! Tests of the providers' tool search: lists with deferred tools, answers to searches of models,
//! and that both have the tools of the key alone.

use serde_json::{Value, json};
use server_core::ListingOptions;
use testkit::executor::echo_executor;
use tool::{DeferMode, Offer, PermissionLevel};

use crate::support::{Client, FixtureServer, ServerSetup, tools};

const SEARCHES: [(&str, &str); 6] = [
    ("anthropic", "provider"),
    ("anthropic", "provider_regex"),
    ("anthropic", "toolkeep"),
    ("openai_responses", "provider"),
    ("openai_responses_strict", "provider"),
    ("openai_responses", "toolkeep"),
];

async fn server_with(offers: Vec<Offer>, always: &[&str]) -> FixtureServer {
    let always_listed = always.iter().map(|name| (*name).to_owned()).collect();
    let listing_options = ListingOptions { always_listed, ..ListingOptions::default() };
    FixtureServer::with_setup(ServerSetup { offers, listing_options, ..ServerSetup::default() })
        .await
}

async fn list(client: &Client, (format, searcher): (&str, &str)) -> Value {
    client.get(&format!("/v1/tools?format={format}&search={searcher}")).await.expect_ok()
}

/// The functions of a list: themselves, or in namespaces.
fn functions(list: &Value) -> Vec<Value> {
    let all = list["tools"].as_array().unwrap().iter();
    let inside = all.flat_map(|tool| match tool["type"].as_str() {
        Some("namespace") => tool["tools"].as_array().unwrap().clone(),
        _ => vec![tool.clone()],
    });
    inside.filter(|tool| tool["type"] != "tool_search").collect()
}

fn names(functions: &[Value], is_deferred: bool) -> Vec<&str> {
    let some = functions.iter().filter(|it| (it["defer_loading"] == true) == is_deferred);
    some.map(|tool| tool["name"].as_str().unwrap()).collect()
}

/// A message of a model that searches, as its provider writes it.
fn search_message(format: &str, arguments: &Value) -> Value {
    match format {
        "anthropic" => json!({"role": "assistant", "content": [
            {"type": "tool_use", "id": "search_1", "name": "search_tools", "input": arguments}]}),
        _ => json!({"output": [{"type": "tool_search_call", "id": "tsc_1", "call_id": "search_1",
            "execution": "client", "status": "completed", "arguments": arguments}]}),
    }
}

async fn search(client: &Client, format: &str, arguments: &Value) -> Value {
    let path = format!("/v1/calls?format={format}&search=toolkeep");
    client.post(&path, &search_message(format, arguments)).await.expect_ok()
}

#[tokio::test]
async fn a_list_defers_all_tools_but_those_that_are_always_listed() {
    let offers = tools::standard_offers();
    let server = server_with(offers, &["notes.append", "needs.owner", "nothing"]).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for search in SEARCHES {
        let plain = ann.get(&format!("/v1/tools?format={}", search.0)).await.expect_ok();
        let listed = list(&ann, search).await;
        let functions = functions(&listed);
        let loaded = names(&functions, false);
        let own_search = match search {
            ("anthropic", "provider") => &["tool_search_tool_bm25"][..],
            ("anthropic", "provider_regex") => &["tool_search_tool_regex"],
            ("anthropic", _) => &["search_tools"],
            _ => &[],
        };
        assert_eq!(loaded, [own_search, &["notes_append"]].concat(), "{search:?}");
        let mut expected: Vec<_> = plain["names"].as_object().unwrap().keys().collect();
        if search == ("openai_responses", "toolkeep") {
            expected.retain(|name| *name == "notes_append");
        }
        let mut all: Vec<_> = listed["names"].as_object().unwrap().keys().collect();
        all.sort();
        expected.sort();
        assert_eq!(all, expected, "{search:?}");
        assert_eq!(names(&functions, true).len(), expected.len() - 1, "{search:?}");
        let search_tool = listed["tools"].as_array().unwrap().iter();
        let search_tools = search_tool.filter(|tool| tool["type"] == "tool_search");
        assert_eq!(search_tools.count(), usize::from(search.0 != "anthropic"), "{search:?}");
    }
    let namespaces = list(&ann, ("openai_responses", "provider")).await;
    let namespace = &namespaces["tools"][0];
    assert_eq!((&namespace["type"], &namespace["name"]), (&json!("namespace"), &json!("s")));
    let described = namespace["description"].as_str().unwrap();
    assert!(described.starts_with("Tools of the source s: "), "{described}");
    // Without anything to search there is no search tool.
    let alone = "/v1/tools?format=anthropic&search=provider&allowed_tools=notes.append";
    assert_eq!(ann.get(alone).await.expect_ok()["tools"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_source_that_is_never_deferred_is_loaded_and_not_found() {
    let server = server_with(tools::standard_offers(), &[]).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let offer = |name: &str| tools::tool_offer(tools::test_tool(name), echo_executor());
    let early = vec![offer("early.append"), offer("early.read")];
    server.add_mcp_source_with("early", early, DeferMode::Never).await;
    for search in SEARCHES {
        let functions = functions(&list(&ann, search).await);
        let mut loaded = names(&functions, false);
        loaded.retain(|name| !name.contains("search"));
        assert_eq!(loaded, ["early_append", "early_read"], "{search:?}");
    }
    let asked = json!({"queries": ["append"], "limit": 3});
    let found = search(&ann, "anthropic", &asked).await.to_string();
    assert!(found.contains("notes_append") && !found.contains("early"), "{found}");
}

#[tokio::test]
async fn a_search_loads_tools_that_can_be_called_in_the_next_message() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let arguments = json!({"queries": ["append notes"], "limit": 1});
    let answer = search(&ann, "openai_responses", &arguments).await;
    let whole = ann.get("/v1/tools/notes.append?format=openai_responses").await.expect_ok();
    let mut function = whole;
    function["defer_loading"] = json!(true);
    let output = json!({"type": "tool_search_output", "execution": "client", "call_id": "search_1",
        "status": "completed", "tools": [{"type": "namespace", "name": "s",
        "description": "Tools of the source s.", "tools": [function]}]});
    assert_eq!(answer["messages"], json!([output]));
    let report =
        json!([{"id": "search_1", "queries": ["append notes"], "tools": ["notes.append"]}]);
    assert_eq!((&answer["searches"], &answer["calls"]), (&report, &json!([])));
    let call = json!([{"type": "function_call", "call_id": "call_1", "namespace": "s",
        "name": "notes_append", "arguments": "{\"n\": 3}"}]);
    let called = ann.post("/v1/calls?format=openai_responses", &call).await.expect_ok();
    assert_eq!(called["calls"][0]["status"], "succeeded", "{called}");
    assert!(called.get("searches").is_none());

    // All results of a message of Anthropic are in one message, in its order.
    let message = json!({"role": "assistant", "content": [
        {"type": "tool_use", "id": "call_1", "name": "notes_append", "input": {"n": 3}},
        {"type": "tool_use", "id": "search_1", "name": "search_tools", "input": arguments},
        {"type": "tool_use", "id": "search_2", "name": "search_tools", "input": {"query": "x"}},
        {"type": "tool_use", "id": "call_2", "name": "notes_append", "input": {"n": 4}}]});
    let path = "/v1/calls?format=anthropic&search=toolkeep";
    let answer = ann.post(path, &message).await.expect_ok();
    let blocks = answer["messages"][0]["content"].as_array().unwrap();
    assert_eq!(answer["messages"].as_array().unwrap().len(), 1);
    let ids: Vec<_> = blocks.iter().map(|block| block["tool_use_id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["call_1", "search_1", "search_2", "call_2"]);
    let reference = json!([{"type": "tool_reference", "tool_name": "notes_append"}]);
    assert_eq!(blocks[1]["content"], reference);
    assert!(blocks[1].get("is_error").is_none() && blocks[2]["is_error"] == true);
    let text = blocks[2]["content"].as_str().unwrap();
    assert!(text.starts_with("arguments of `search_tools`: "), "{text}");
    assert_eq!(answer["searches"][1]["error"], text);
    assert_eq!(answer["calls"].as_array().unwrap().len(), 2);
    // Without the parameter, the name is a tool like others.
    let alone = ann.post("/v1/calls?format=anthropic", &message).await.expect_ok();
    let codes: Vec<_> = alone["calls"].as_array().unwrap().iter().map(|it| &it["code"]).collect();
    assert_eq!(codes, [&json!(null), &json!("unknown_tool"), &json!("unknown_tool"), &json!(null)]);
}

#[tokio::test]
async fn a_search_has_a_budget_and_a_message_a_number_of_searches() {
    let notes = ["add", "read", "list", "wipe"].map(|verb| {
        let name = format!("{verb}_notes");
        let schema = json!({"type": "object"});
        let tool = testkit::read_only_tool(&name, &format!("Can {verb} notes."), &schema);
        tools::tool_offer(tool, echo_executor())
    });
    let server = server_with(notes.into(), &["add_notes"]).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let found = async |arguments: Value| {
        let answer = search(&ann, "anthropic", &arguments).await;
        answer["searches"][0]["tools"].as_array().unwrap().len()
    };
    // The best tool always comes, and more while they fit.
    assert_eq!(found(json!({"queries": ["notes"], "limit": 3, "budget": 1})).await, 1);
    assert!(found(json!({"queries": ["notes"], "limit": 3})).await > 1);
    // A tool that the list has without a search is no result: the provider refuses its reference.
    let answer = search(&ann, "anthropic", &json!({"queries": ["add notes"]})).await;
    assert!(!answer["messages"].to_string().contains("\"add_notes\""), "{answer}");
    let searches = (0..9).map(|at| {
        json!({"type": "tool_use", "id": format!("s{at}"), "name": "search_tools",
            "input": {"queries": ["notes"]}})
    });
    let message = json!({"content": searches.collect::<Vec<_>>()});
    let path = "/v1/calls?format=anthropic&search=toolkeep";
    let answer = ann.post(path, &message).await.expect_ok();
    let searches = answer["searches"].as_array().unwrap();
    assert!(searches[7].get("error").is_none());
    let told = "a message has at most 8 searches; repeat this one in the next message";
    assert_eq!(searches[8]["error"], told);
}

/// A hidden tool is not listed as deferred, not found, not referenced, and changes no answer; nor
/// does one that has the name of the search tool, or one that is always listed.
#[tokio::test]
async fn a_hidden_tool_is_neither_deferred_nor_found_nor_referenced() {
    let tool = |name: &str, description: &str| {
        testkit::read_only_tool(name, description, &json!({"type": "object"}))
    };
    let hidden = |name: &str| {
        let mut tool = tool(name, "Lists the zebra keys of the vault.");
        tool.traits.min_level = PermissionLevel::Owner;
        tools::tool_offer(tool, echo_executor())
    };
    let offers = |with_hidden: bool| {
        let mut all = vec![
            tools::tool_offer(tool("read_file", "Reads a file."), echo_executor()),
            tools::tool_offer(tool("list_keys", "Lists keys of a keyboard."), echo_executor()),
        ];
        if with_hidden {
            all.extend(["vault_keys", "search_tools", "tool_search_tool_bm25"].map(hidden));
        }
        all
    };
    let (with, without) = (
        server_with(offers(true), &["vault_keys"]).await,
        server_with(offers(false), &["vault_keys"]).await,
    );
    let (ann, bob, owner) = (
        with.agent_client("ann", PermissionLevel::User).await,
        without.agent_client("ann", PermissionLevel::User).await,
        with.owner_client().await,
    );
    for search in SEARCHES {
        let (mut seen, mut alone) = (list(&ann, search).await, list(&bob, search).await);
        let mut owned = list(&owner, search).await;
        for list in [&mut seen, &mut alone, &mut owned] {
            list.as_object_mut().unwrap().remove("catalog");
        }
        assert_eq!(seen, alone, "{search:?}");
        assert!(!seen.to_string().contains("vault_keys"), "{search:?}");
        // Control: its owner gets it, without a search, because it is always listed.
        assert!(names(&functions(&owned), false).contains(&"vault_keys"), "{search:?}");
    }
    let queries = ["zebra keys of the vault", "vault_keys", "vualt", "search_tools", "keys"];
    for format in ["anthropic", "openai_responses"] {
        for query in queries {
            let arguments = json!({"queries": [query], "limit": 10});
            let seen = search(&ann, format, &arguments).await;
            assert_eq!(seen, search(&bob, format, &arguments).await, "{format} {query}");
            let tools = seen["searches"][0]["tools"].to_string();
            assert!(!tools.contains("vault") && !tools.contains("search"), "{tools}");
        }
    }
    its_owner_finds_it(&server_with(offers(true), &[]).await).await;
}

/// Control: its owner finds and loads it, where it is deferred. Another tool of the owner has the
/// name of the search tool, and the list says that it is left out.
async fn its_owner_finds_it(deferring: &FixtureServer) {
    let owner = deferring.owner_client().await;
    let listed = list(&owner, ("anthropic", "toolkeep")).await;
    assert!(names(&functions(&listed), true).contains(&"vault_keys"));
    assert_eq!(listed["left_out"][0]["name"], "search_tools");
    assert_eq!(names(&functions(&listed), false), ["search_tools"]);
    let arguments = json!({"queries": ["zebra keys of the vault"], "limit": 1});
    let found = search(&owner, "anthropic", &arguments).await;
    assert_eq!(found["messages"][0]["content"][0]["content"][0]["tool_name"], "vault_keys");
}

#[tokio::test]
async fn wrong_parameters_are_named() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for (query, told) in [
        ("search=provider", "`search` needs a `format`"),
        ("format=native&search=provider", "`search` needs a `format`"),
        (
            "format=gemini&search=provider",
            "gemini has no tool search; use openai_responses, openai_responses_strict or anthropic",
        ),
        (
            "format=openai_responses&search=provider_regex",
            "openai_responses has no search by regular expressions; use `provider`",
        ),
        (
            "format=anthropic&search=bm25",
            "unknown search `bm25`; use provider, provider_regex or toolkeep",
        ),
        (
            "format=anthropic&search=provider&limit=5",
            "`search=provider` cannot be combined with `limit`",
        ),
        (
            "format=anthropic&search=toolkeep&source=s",
            "`search=toolkeep` cannot be combined with `source`",
        ),
    ] {
        let reply = ann.get(&format!("/v1/tools?{query}")).await;
        assert_eq!(reply.error(), (400, "invalid_request".to_owned(), told.to_owned()), "{query}");
    }
    for (query, told) in [
        ("search=toolkeep", "`search` needs a `format`"),
        (
            "format=anthropic&search=provider",
            "`search` of a call must be `toolkeep`: a provider answers its own searches",
        ),
        (
            "format=ollama&search=toolkeep",
            "ollama has no tool search; use openai_responses, openai_responses_strict or anthropic",
        ),
    ] {
        let reply = ann.post(&format!("/v1/calls?{query}"), &json!({})).await;
        assert_eq!(reply.error(), (400, "invalid_request".to_owned(), told.to_owned()), "{query}");
    }
    // Control: a source is a filter where the provider searches.
    ann.get("/v1/tools?format=anthropic&search=provider&source=s").await.expect_ok();
}
