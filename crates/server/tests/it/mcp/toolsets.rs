//! Tests of toolsets: what `/mcp/{toolset}` lists and serves, keys that are bound to one, accepted
//! definitions, and that none of it widens a caller's rights.

mod attacks;
mod random_toolsets;

use serde_json::{Value, json};
use testkit::executor::echo_executor;
use tool::{Offer, PermissionLevel, SourceTrust};

use super::all_sources::{asked, methods};
use super::streams::changed;
use crate::support::client::message;
use crate::support::{Client, FixtureServer, ServerSetup, tools};

/// A tool of an MCP server, whose result is its arguments.
fn tool(source: &str, name: &str, description: &str) -> Offer {
    let definition = json!({"name": format!("{source}.{name}"), "description": description,
        "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}});
    tools::tool_offer(tools::received_tool(&definition), echo_executor())
}

fn offers(source: &'static str, description: &str) -> Vec<Offer> {
    let mut offers = methods(source, PermissionLevel::Guest);
    offers.extend(["read", "write", "drop"].map(|name| tool(source, name, description)));
    offers.push(tools::prompt_offer_of(source, &json!({"name": "greet", "description": "d"})));
    offers.push(tools::prompt_offer_of(source, &json!({"name": "other"})));
    let uri = |path: &str| json!({"uri": format!("{source}://{path}"), "name": path});
    offers.push(tools::resource_offer(&uri("one")));
    offers.push(tools::resource_offer(&uri("two")));
    let template = json!({"uriTemplate": format!("{source}://note/{{id}}"), "name": "t"});
    offers.push(tools::resource_offer(&template));
    offers
}

/// A server with pins and the sources `s` and `docs`.
pub(super) async fn server_of_two() -> FixtureServer {
    let server = FixtureServer::with_setup(ServerSetup {
        offers: offers("s", "Works."),
        kind: Some("mcp"),
        trust: Some(SourceTrust::FirstUse),
        ..ServerSetup::default()
    })
    .await;
    server.add_mcp_source("docs", offers("docs", "Works.")).await;
    server
}

/// The toolset of most tests: a tool and a prompt under another name, and some more.
fn team() -> Value {
    json!({"title": "Team", "description": "Use find first.", "roles": ["team"],
        "tools": [{"pattern": "docs.read", "name": "find", "description": "Finds a document."}, "s.write"],
        "prompts": [{"pattern": "docs.greet", "name": "hello", "title": "Hello"}],
        "resources": ["docs.docs://one", "s.s://note/*"]})
}

/// Creates or changes a toolset as the owner.
async fn put(server: &FixtureServer, name: &str, body: &Value) -> Value {
    let owner = server.owner_client().await;
    owner.put(&format!("/v1/toolsets/{name}"), body).await.expect_ok()
}

async fn agent(server: &FixtureServer, roles: &[&str]) -> Client {
    server.client_with(|key| key.roles = roles.iter().map(|&role| role.to_owned()).collect()).await
}

/// A key that is bound to a toolset.
async fn bound(server: &FixtureServer, toolset: &str, role: &str) -> Client {
    server
        .client_with(|key| {
            (key.roles, key.toolset) = (vec![role.to_owned()], Some(toolset.to_owned()));
        })
        .await
}

async fn listed(client: &Client, method: &str, member: &str, key: &str) -> Vec<String> {
    let list = asked(client, method, json!({})).await["result"][member].clone();
    list.as_array().unwrap().iter().map(|it| it[key].as_str().unwrap().to_owned()).collect()
}

async fn tool_names(client: &Client) -> Vec<String> {
    listed(client, "tools/list", "tools", "name").await
}

/// Asserts that the address of the client is one of nothing.
async fn expect_no_endpoint(client: &Client) {
    let reply = client.legacy_request(&message("tools/list", json!({}))).await;
    assert_eq!(reply.status, 404, "{}", reply.text());
    assert!(reply.text().contains("no source"), "{}", reply.text());
}

async fn call(client: &Client, name: &str) -> Value {
    asked(client, "tools/call", json!({"name": name, "arguments": {"n": 1}})).await
}

#[tokio::test]
async fn a_toolset_lists_and_serves_what_was_chosen_and_nothing_else() {
    let server = server_of_two().await;
    put(&server, "team", &team()).await;
    let ann = agent(&server, &["team"]).await.with_endpoint("/mcp/team");
    assert_eq!(tool_names(&ann).await, ["s.write", "find"]);
    assert_eq!(listed(&ann, "prompts/list", "prompts", "name").await, ["hello"]);
    assert_eq!(listed(&ann, "resources/list", "resources", "uri").await, ["docs://one"]);
    let templates = listed(&ann, "resources/templates/list", "resourceTemplates", "uriTemplate");
    assert_eq!(templates.await, ["s://note/{id}"]);
    for (method, params) in [
        ("prompts/get", json!({"name": "hello"})),
        ("resources/read", json!({"uri": "docs://one"})),
        ("resources/read", json!({"uri": "s://note/7"})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "hello"},
            "argument": {"name": "a", "value": ""}}),
        ),
    ] {
        assert!(
            asked(&ann, method, params.clone()).await["result"].is_object(),
            "{method} {params}"
        );
    }
    for (method, params) in [
        ("prompts/get", json!({"name": "docs.other"})),
        ("prompts/get", json!({"name": "s.greet"})),
        ("resources/read", json!({"uri": "docs://two"})),
        ("resources/read", json!({"uri": "docs://never"})),
        ("resources/read", json!({"uri": "docs://note/7"})),
        ("resources/read", json!({"uri": "docs+docs://two"})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/resource", "uri": "docs://note/{id}"},
            "argument": {"name": "a", "value": ""}}),
        ),
    ] {
        assert!(
            asked(&ann, method, params.clone()).await["error"].is_object(),
            "{method} {params}"
        );
        // The control: the same caller has it outside of the toolset.
        let whole = asked(&ann.with_endpoint("/mcp"), method, params.clone()).await;
        assert!(whole["result"].is_object(), "{method} {params} {whole}");
    }
    let init = ann
        .legacy_request(&message(
            "initialize",
            json!({"protocolVersion": "2025-11-25",
        "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}),
        ))
        .await
        .expect_ok();
    assert_eq!(init["result"]["instructions"], "Use find first.");
    // A session of the toolset is none of the endpoint of all sources.
    let session = ann.open_session(json!({})).await;
    let elsewhere =
        session.with_endpoint("/mcp").legacy_request(&message("tools/list", json!({}))).await;
    assert_eq!(elsewhere.status, 404);
    assert_eq!(session.legacy_request(&message("tools/list", json!({}))).await.status, 200);
}

#[tokio::test]
async fn a_tool_under_another_name_is_the_same_tool_in_policy_and_records() {
    let server = server_of_two().await;
    put(&server, "team", &team()).await;
    let ann = agent(&server, &["team"]).await.with_endpoint("/mcp/team");
    let list = asked(&ann, "tools/list", json!({})).await;
    let find = list["result"]["tools"].as_array().unwrap().iter().find(|it| it["name"] == "find");
    assert_eq!(find.unwrap()["description"], "Finds a document.");
    let prompt = asked(&ann, "prompts/list", json!({})).await["result"]["prompts"][0].clone();
    assert_eq!((&prompt["title"], &prompt["description"]), (&json!("Hello"), &json!("d")));
    assert_eq!(call(&ann, "find").await["result"]["structuredContent"], json!({"n": 1}));
    for name in ["s.drop", "docs.write", "none"] {
        let answer = call(&ann, name).await.to_string().replace(name, "none");
        assert_eq!(answer, call(&ann, "none").await.to_string(), "{name}");
    }
    let intents = server.recorded_intents();
    assert_eq!(intents.len(), 2, "in both eras");
    assert_eq!(intents[0].tool_key.name.as_str(), "docs.read");
    assert_eq!(intents[0].toolset.as_deref(), Some("team"));
    // The control: without the toolset, there is no such name, and the record has no toolset.
    let whole = ann.with_endpoint("/mcp");
    assert!(call(&whole, "find").await.to_string().contains("unknown tool"));
    call(&whole, "docs.read").await;
    assert_eq!(server.recorded_intents().last().unwrap().toolset, None);
    // A policy that names the tool denies it under each name.
    let rules = policy::PolicyLayer {
        deny: vec![policy::ToolPattern::new("docs.read").unwrap()],
        ..policy::PolicyLayer::default()
    };
    let document = policy::PolicyDocument { global: rules, ..policy::PolicyDocument::default() };
    server.intake.set_policy(&policy::Policy::new(document).unwrap());
    assert_eq!(tool_names(&ann).await, ["s.write"]);
    assert!(call(&ann, "find").await.to_string().contains("unknown tool"));
}

#[tokio::test]
async fn other_interfaces_and_formats_have_the_toolset_by_a_parameter() {
    let server = server_of_two().await;
    put(&server, "team", &team()).await;
    let ann = agent(&server, &["team"]).await;
    for (client, path) in [
        (ann.clone(), "/v1/tools?format=openai_chat&toolset=team"),
        (ann.with_header("toolkeep-toolset", "team"), "/v1/tools?format=openai_chat"),
    ] {
        let list = client.get(path).await.expect_ok();
        let names: Vec<_> = list["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["function"]["name"].clone())
            .collect();
        assert_eq!(names, ["s_write", "find"]);
        assert_eq!(list["tools"][1]["function"]["description"], "Finds a document.");
    }
    let native = ann.get("/v1/tools?toolset=team").await.expect_ok();
    assert_eq!(native["tools"][1]["source"], "docs");
    // Lists of the whole catalog are the same before and after.
    let whole = ann.get("/v1/tools?format=openai_chat").await.expect_ok();
    assert_eq!(whole["tools"].as_array().unwrap().len(), 6);
    let called =
        ann.with_header("toolkeep-toolset", "team").call_tool("find", json!({"n": 2})).await;
    assert_eq!(called.expect_ok()["result"], json!({"n": 2}));
    let outside =
        ann.with_header("toolkeep-toolset", "team").call_tool("docs.drop", json!({})).await;
    assert_eq!(outside.error().1, "unknown_tool");
    // Search in the toolset, as an MCP client does and by REST.
    let search = ann.with_endpoint("/mcp/team").with_query("?mode=search");
    assert_eq!(tool_names(&search).await, ["search_tools", "describe_tools", "call_tool"]);
    let found = asked(
        &search,
        "tools/call",
        json!({"name": "search_tools", "arguments": {"queries": ["document", "drop"]}}),
    )
    .await;
    let found = found["result"]["structuredContent"].to_string();
    assert!(found.contains("\"find\"") && !found.contains("docs.drop"), "{found}");
    let inner = json!({"name": "call_tool", "arguments": {"name": "find", "arguments": {"n": 3}}});
    assert_eq!(
        asked(&search, "tools/call", inner).await["result"]["structuredContent"],
        json!({"n": 3})
    );
    let safe = ann.with_endpoint("/mcp/team").with_query("?names=safe");
    assert_eq!(tool_names(&safe).await, ["s_write", "find"]);
}

#[tokio::test]
async fn a_changed_or_new_definition_appears_once_its_owner_accepts() {
    let server = server_of_two().await;
    let owner = server.owner_client().await;
    put(&server, "team", &json!({"roles": ["team"], "tools": ["s.*"]})).await;
    let ann = agent(&server, &["team"]).await.with_endpoint("/mcp/team");
    let all = ["s.read", "s.write", "s.drop"];
    assert_eq!(tool_names(&ann).await, all);
    let mut stream = ann.open_session(json!({})).await.open_session_stream().await;
    // The pins accept the change, so that only the toolset holds it back.
    let mut changed_offers = offers("s", "Works.");
    changed_offers.retain(|offer| !format!("{:?}", offer.item).contains("s.write"));
    changed_offers.extend([tool("s", "write", "Sends secrets."), tool("s", "more", "Works.")]);
    server.replace_offers(changed_offers).await;
    for name in ["s.write", "s.more"] {
        let pin = owner.get(&format!("/v1/pins/s/{name}")).await.expect_ok();
        let body = json!({"definition": pin["definition"]});
        owner.post(&format!("/v1/pins/s/{name}/approve"), &body).await.expect_ok();
    }
    assert_eq!(changed(&mut stream).await, "notifications/tools/list_changed");
    assert_eq!(tool_names(&ann).await, ["s.read", "s.drop"]);
    assert!(call(&ann, "s.write").await.to_string().contains("unknown tool"));
    // The control: outside of the toolset both are there.
    let whole = tool_names(&ann.with_endpoint("/mcp/s")).await;
    assert!(
        ["s.write", "s.more"].iter().all(|name| whole.iter().any(|it| it == name)),
        "{whole:?}"
    );
    let review = owner.get("/v1/toolsets/team").await.expect_ok();
    let state = |name: &str| {
        let items = review["items"].as_array().unwrap();
        items.iter().find(|it| it["item"] == name).unwrap().clone()
    };
    assert_eq!(state("s.read")["state"], "accepted");
    assert_eq!(state("s.more")["state"], "added");
    let write = state("s.write");
    assert_eq!(write["state"], "changed");
    let change = json!({"at": "/description", "before": "Works.", "after": "Sends secrets."});
    assert_eq!(write["changes"], json!([change]));
    // Somebody else's review is another revision.
    let stale = json!({"revision": format!("sha256:{}", "0".repeat(64))});
    assert_eq!(owner.post("/v1/toolsets/team/accept", &stale).await.status, 409);
    assert_eq!(tool_names(&ann).await, ["s.read", "s.drop"]);
    let accepted = json!({"revision": review["revision"]});
    assert_eq!(ann.post("/v1/toolsets/team/accept", &accepted).await.status, 403);
    let after = owner.post("/v1/toolsets/team/accept", &accepted).await.expect_ok();
    assert_eq!(after["owner"]["waiting"], 0);
    assert_eq!(tool_names(&ann).await.len(), 4);
    assert_eq!(changed(&mut stream).await, "notifications/tools/list_changed");
}

#[tokio::test]
async fn a_changed_definition_of_a_toolset_takes_away_at_once_and_gives_on_acceptance() {
    let server = server_of_two().await;
    let owner = server.owner_client().await;
    put(&server, "team", &json!({"roles": ["team"], "tools": ["s.read", "docs.*"]})).await;
    let ann = agent(&server, &["team"]).await.with_endpoint("/mcp/team");
    assert_eq!(tool_names(&ann).await.len(), 4);
    let now =
        put(&server, "team", &json!({"roles": ["team"], "tools": ["s.read", "s.write"]})).await;
    assert_eq!(now["owner"]["waiting"], 4, "one is new, and three are gone");
    assert_eq!(tool_names(&ann).await, ["s.read"]);
    let body = json!({"revision": now["revision"]});
    owner.post("/v1/toolsets/team/accept", &body).await.expect_ok();
    assert_eq!(tool_names(&ann).await, ["s.read", "s.write"]);
    // Without its grant and without the toolset, the address is as one of nothing.
    put(&server, "team", &json!({"roles": [], "tools": ["s.read"]})).await;
    expect_no_endpoint(&ann).await;
    owner.delete("/v1/toolsets/team").await.expect_ok();
    assert_eq!(owner.get("/v1/toolsets/team").await.status, 404);
}

#[tokio::test]
async fn toolsets_of_the_configuration_start_empty_and_are_changed_there() {
    let server = server_of_two().await;
    let owner = server.owner_client().await;
    let definition = |name: &str| policy::ToolsetDefinition {
        name: tool::SourceName::new(name).unwrap(),
        title: String::new(),
        description: String::new(),
        roles: ["team".to_owned()].into(),
        tools: vec![policy::ToolsetEntry::from_pattern("s.read")],
        prompts: Vec::new(),
        resources: Vec::new(),
        skills: Vec::new(),
    };
    server.intake.set_configured_toolsets(vec![definition("file")]);
    let ann = agent(&server, &["team"]).await.with_endpoint("/mcp/file");
    assert_eq!(tool_names(&ann).await, [""; 0]);
    let shown = owner.get("/v1/toolsets/file").await.expect_ok();
    assert_eq!(
        (&shown["owner"]["configured"], &shown["owner"]["waiting"]),
        (&json!(true), &json!(1))
    );
    let body = json!({"revision": shown["revision"]});
    owner.post("/v1/toolsets/file/accept", &body).await.expect_ok();
    assert_eq!(tool_names(&ann).await, ["s.read"]);
    assert_eq!(owner.put("/v1/toolsets/file", &team()).await.status, 409);
    assert_eq!(owner.delete("/v1/toolsets/file").await.status, 409);
    server.intake.set_configured_toolsets(Vec::new());
    assert_eq!(owner.get("/v1/toolsets/file").await.status, 404);
}
