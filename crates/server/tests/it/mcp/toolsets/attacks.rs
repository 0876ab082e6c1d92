//! Attacks on toolsets, each with a control that shows that the attempt works elsewhere.

use identity::Right;
use serde_json::{Value, json};
use tool::{CatalogItem, PermissionLevel};

use super::{agent, bound, call, expect_no_endpoint, put, server_of_two, team, tool, tool_names};
use crate::mcp::all_sources::asked;
use crate::support::client::message;
use crate::support::tools;

/// Both eras' bytes with each option of the address, with the asked name replaced.
async fn bytes_of(client: &crate::support::Client, name: &str) -> Vec<String> {
    let mut bytes = Vec::new();
    for options in ["", "?mode=list", "?mode=search", "?mode=none", "?names=safe", "?other=1"] {
        let client = client.with_endpoint(&format!("/mcp/{name}{options}"));
        let old = client.legacy_request(&message("tools/list", json!({}))).await;
        let new = client.modern_request("tools/list", json!({})).await;
        bytes.extend([old, new].map(|reply| format!("{} {}", reply.status, reply.text())));
    }
    bytes.iter().map(|each| each.replace(name, "NAME")).collect()
}

#[tokio::test]
async fn unknown_and_not_granted_toolsets_are_answered_alike() {
    let server = server_of_two().await;
    put(&server, "team", &team()).await;
    put(&server, "nobody", &json!({"tools": ["s.read"]})).await;
    let (ann, ben) = (agent(&server, &["team"]).await, agent(&server, &["other"]).await);
    for (client, name) in [(&ben, "team"), (&ann, "nobody"), (&ben, "nobody")] {
        assert_eq!(bytes_of(client, name).await, bytes_of(client, "elsewhere").await, "{name}");
        let rest = async |name: &str| {
            let listed = client.get(&format!("/v1/tools?toolset={name}")).await;
            let shown = client.get(&format!("/v1/toolsets/{name}")).await;
            let bound = json!({"toolset": name, "expires_in": 60});
            let key = client.post("/v1/keys/delegate", &bound).await;
            [listed, shown, key]
                .map(|reply| format!("{} {}", reply.status, reply.text()).replace(name, "NAME"))
        };
        assert_eq!(rest(name).await, rest("unknown").await, "{name}");
    }
    // The control: who may use it has it, and its owner knows of all.
    assert_ne!(bytes_of(&ann, "team").await, bytes_of(&ann, "elsewhere").await);
    let names = |list: Value| {
        list["toolsets"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(ann.get("/v1/toolsets").await.expect_ok()), ["team"]);
    assert_eq!(names(ben.get("/v1/toolsets").await.expect_ok()), [""; 0]);
    let owner = server.owner_client().await;
    assert_eq!(names(owner.get("/v1/toolsets").await.expect_ok()), ["nobody", "team"]);
    // A caller's reply has nothing that only owners know.
    assert!(ann.get("/v1/toolsets/team").await.expect_ok()["owner"].is_null());
}

#[tokio::test]
async fn a_bound_key_finds_nothing_outside_of_its_toolset_at_any_interface() {
    let server = server_of_two().await;
    put(&server, "team", &team()).await;
    put(&server, "wide", &json!({"roles": ["*"], "tools": ["s.*", "docs.*"]})).await;
    let (key, free) = (bound(&server, "team", "team").await, agent(&server, &["team"]).await);
    let secret = "docs.drop";
    // Each read of anything: the name of a tool outside is in none of them.
    let paths = [
        "/v1/tools",
        "/v1/tools?format=openai_chat",
        "/v1/tools?format=anthropic",
        "/v1/tools?format=gemini",
        "/v1/tools?envelope=list_tools",
        "/v1/search?q=drop",
        "/v1/sources",
        "/v1/toolsets",
        "/v1/programs/tools",
        "/v0.1/servers",
        "/tools",
        "/api/modules",
        "/api/tools",
        "/catalogue",
        "/v1/attention",
    ];
    for path in paths {
        let reply = key.get(path).await;
        assert!(!reply.text().contains("drop"), "{path}: {}", reply.text());
    }
    // The control: the same key without a binding reads the name at many of them.
    let mut seen = 0;
    for path in paths {
        seen += usize::from(free.get(path).await.text().contains("drop"));
    }
    assert!(seen >= 5, "{seen}");
    assert_eq!(free.get(&format!("/v1/tools/{secret}")).await.status, 200);
    let hidden = key.get(&format!("/v1/tools/{secret}")).await;
    assert_eq!(hidden.text().replace(secret, "none"), key.get("/v1/tools/none").await.text());
    // Another toolset, wherever it is named, is none that the key may use.
    assert_eq!(tool_names(&free.with_endpoint("/mcp/wide")).await.len(), 6);
    expect_no_endpoint(&key.with_endpoint("/mcp/wide")).await;
    assert_eq!(key.get("/v1/tools?toolset=wide").await.status, 404);
    assert_eq!(key.with_header("toolkeep-toolset", "wide").get("/v1/tools").await.status, 404);
    // Its own is there, at the endpoint of all sources too.
    for endpoint in ["/mcp", "/mcp/team"] {
        assert_eq!(tool_names(&key.with_endpoint(endpoint)).await, ["s.write", "find"]);
    }
    assert_eq!(tool_names(&key.with_endpoint("/mcp/docs")).await, ["docs.read"]);
    assert_eq!(key.call_tool("find", json!({"n": 1})).await.status, 200);
    // What comes of the key is bound as it is.
    let made = key.post("/v1/keys/delegate", &json!({"expires_in": 60})).await.expect_ok();
    let child = server.keyless_client().with_key(made["key"].as_str().unwrap(), "child");
    assert_eq!(tool_names(&child).await, ["s.write", "find"]);
    assert_eq!(key.post("/v1/keys/delegate", &json!({"toolset": "wide"})).await.status, 404);
}

#[tokio::test]
async fn a_bound_key_calls_nothing_outside_of_its_toolset_at_any_interface() {
    let server = server_of_two().await;
    put(&server, "team", &team()).await;
    put(&server, "wide", &json!({"roles": ["*"], "tools": ["s.*", "docs.*"]})).await;
    let (key, free) = (bound(&server, "team", "team").await, agent(&server, &["team"]).await);
    let secret = "docs.drop";
    let called = free.call_tool(secret, json!({})).await.expect_ok();
    let record = format!("/v1/calls/{}", called["call_id"].as_str().unwrap());
    assert_eq!(free.get(&record).await.status, 200, "the control");
    assert_eq!(key.get(&record).await.status, 404, "another key of its user called it");
    assert_eq!(key.call_tool(secret, json!({})).await.error().1, "unknown_tool");
    for (name, endpoint) in [(secret, "/mcp"), (secret, "/mcp/docs"), (secret, "/mcp/team")] {
        let answer = call(&key.with_endpoint(endpoint), name).await.to_string();
        let unknown = call(&key.with_endpoint(endpoint), "docs.none").await.to_string();
        assert_eq!(answer.replace(name, "docs.none"), unknown, "{endpoint}");
    }
    for body in [
        json!({"format": "openai_chat", "tool_calls": [{"id": "1", "type": "function",
            "function": {"name": "docs_drop", "arguments": "{}"}}]}),
        json!({"tool": secret, "arguments": {}, "toolset": "wide"}),
    ] {
        let reply = key.post("/v1/calls", &body).await;
        assert!(!reply.text().contains("\"success\":true"), "{}", reply.text());
    }
}

#[tokio::test]
async fn grpc_has_the_toolset_of_a_bound_key_alone() {
    let server = server_of_two().await;
    put(&server, "team", &team()).await;
    let (key, free) = (bound(&server, "team", "team").await, agent(&server, &["team"]).await);
    let listed = async |client| crate::grpc::listed_names(&server, client).await;
    assert_eq!(listed(&key).await, ["s.write", "find"]);
    assert_eq!(listed(&free).await.len(), 6, "the control");
}

#[tokio::test]
async fn a_bound_key_has_no_rights() {
    let server = server_of_two().await;
    put(&server, "team", &team()).await;
    let admin = |toolset: Option<&str>| {
        let toolset = toolset.map(str::to_owned);
        server.client_with(move |key| {
            (key.subject, key.level, key.is_agent) =
                ("boss".to_owned(), PermissionLevel::Owner, false);
            key.roles = vec!["team".to_owned()];
            key.toolset = toolset;
        })
    };
    // A role that grants rights grants none to a bound key.
    let owner = server.owner_client().await;
    let role = json!({"rights": ["sources:refresh", "policy:explain", "keys:write"]});
    owner.put("/v1/roles/team", &role).await.expect_ok();
    let (free, key) = (admin(None).await, admin(Some("team")).await);
    for path in ["/v1/pins", "/v1/keys", "/v1/switches", "/v1/access"] {
        assert_eq!(key.get(path).await.status, 403, "{path}");
        assert_eq!(free.get(path).await.status, 200, "the control: {path}");
    }
    let both = json!({"subject": "x", "toolset": "team", "rights": [Right::RecordsRead.as_str()]});
    assert_eq!(owner.post("/v1/keys", &both).await.status, 400);
    let unknown = json!({"subject": "x", "toolset": "unknown"});
    assert_eq!(owner.post("/v1/keys", &unknown).await.status, 404);
    let one = json!({"subject": "x", "toolset": "team", "roles": ["team"]});
    let made = owner.post("/v1/keys", &one).await.expect_ok();
    let keys = owner.get("/v1/keys").await.expect_ok();
    let record = keys["keys"].as_array().unwrap().iter().find(|it| it["id"] == made["id"]).unwrap();
    assert_eq!(record["toolset"], "team");
}

#[tokio::test]
async fn a_name_that_shadows_another_tool_is_refused() {
    let server = server_of_two().await;
    let owner = server.owner_client().await;
    server
        .replace_offers(vec![
            tools::tool_offer(tools::test_tool("search"), testkit::executor::echo_executor()),
            tool("s", "read", "Works."),
        ])
        .await;
    let body = |name: &str| {
        json!({"roles": ["*"],
        "tools": ["s.search", {"pattern": "docs.drop", "name": name}]})
    };
    // The new tool waits for a review, so that it has to be approved first.
    let pin = owner.get("/v1/pins/s/search").await.expect_ok();
    let approved = json!({"definition": pin["definition"]});
    owner.post("/v1/pins/s/search/approve", &approved).await.expect_ok();
    for shadow in ["search", "seɑrch", "s.read", "search\u{200b}"] {
        let refused = owner.put("/v1/toolsets/team", &body(shadow)).await;
        assert!(refused.status == 409 || refused.status == 400, "{shadow} {}", refused.text());
        assert_eq!(owner.get("/v1/toolsets/team").await.status, 404);
    }
    // The control: another name is taken, and the tool of that name stays itself.
    put(&server, "team", &body("find")).await;
    let ann = agent(&server, &[]).await.with_endpoint("/mcp/team");
    call(&ann, "search").await;
    assert_eq!(server.recorded_intents().last().unwrap().tool_key.name.as_str(), "search");
    call(&ann, "find").await;
    assert_eq!(server.recorded_intents().last().unwrap().tool_key.name.as_str(), "docs.drop");
}

#[tokio::test]
async fn a_toolset_gives_nothing_that_its_caller_may_not_use() {
    let server = server_of_two().await;
    let high =
        |name: &str| tools::tool_with(name, |it| it.traits.min_level = PermissionLevel::Owner);
    let mut offers = super::offers("high", "Works.");
    offers.retain(|offer| !matches!(offer.item, CatalogItem::Tool(_)));
    offers.push(tools::tool_offer(high("high.rm"), testkit::executor::echo_executor()));
    server.add_mcp_source("high", offers).await;
    // The tools of the source are left out, its prompts are not.
    put(&server, "team", &json!({"roles": ["*"], "tools": ["high.*", "s.read"]})).await;
    put(&server, "texts", &json!({"roles": ["*"], "prompts": ["high.*"], "resources": ["high.*"]}))
        .await;
    let (ann, owner) = (agent(&server, &[]).await, server.owner_client().await);
    assert_eq!(tool_names(&ann.with_endpoint("/mcp/team")).await, ["s.read"]);
    assert_eq!(
        tool_names(&owner.with_endpoint("/mcp/team")).await,
        ["s.read", "high.rm"],
        "the control"
    );
    let answer = call(&ann.with_endpoint("/mcp/team"), "high.rm").await.to_string();
    assert!(answer.contains("unknown tool"), "{answer}");
    for (method, params) in [
        ("prompts/get", json!({"name": "high.greet"})),
        ("resources/read", json!({"uri": "high://one"})),
    ] {
        let texts = |client: &crate::support::Client| client.with_endpoint("/mcp/texts");
        assert!(asked(&texts(&ann), method, params.clone()).await["error"].is_object(), "{method}");
        assert!(asked(&texts(&owner), method, params).await["result"].is_object(), "the control");
    }
}

#[tokio::test]
async fn a_name_of_a_source_is_refused_and_a_later_source_takes_nothing() {
    let server = server_of_two().await;
    let owner = server.owner_client().await;
    for (name, status) in [("docs", 409), ("server-card", 400), ("builtin", 400), ("a%20b", 400)] {
        let refused = owner.put(&format!("/v1/toolsets/{name}"), &team()).await;
        assert_eq!(refused.status, status, "{name} {}", refused.text());
    }
    put(&server, "team", &team()).await;
    server.add_mcp_source("team", vec![tool("team", "steal", "Works.")]).await;
    let ann = agent(&server, &["team"]).await;
    assert_eq!(tool_names(&ann.with_endpoint("/mcp/team")).await, ["s.write", "find"]);
    assert!(tool_names(&ann).await.iter().any(|name| name == "team.steal"), "the control");
    // Nor does the source get an address where the toolset is not granted.
    let ben = agent(&server, &[]).await;
    expect_no_endpoint(&ben.with_endpoint("/mcp/team")).await;
}

#[tokio::test]
async fn only_those_with_the_rights_change_and_accept_toolsets() {
    let server = server_of_two().await;
    let shown = put(&server, "team", &team()).await;
    let with = |rights: &'static [Right]| {
        server.client_with(move |key| {
            (key.subject, key.is_agent) = (format!("{rights:?}"), false);
            key.rights = rights.iter().copied().collect();
        })
    };
    let accept = json!({"revision": shown["revision"]});
    for (rights, changes, accepts) in [
        (&[][..], 403, 403),
        (&[Right::SourcesWrite][..], 200, 403),
        (&[Right::PinsWrite][..], 403, 200),
    ] {
        let client = with(rights).await;
        assert_eq!(client.put("/v1/toolsets/team", &team()).await.status, changes, "{rights:?}");
        let accepted = client.post("/v1/toolsets/team/accept", &accept).await;
        assert_eq!(accepted.status, accepts, "{rights:?} {}", accepted.text());
    }
    // Who may not review definitions creates a toolset that waits.
    let mut own = team();
    own["roles"] = json!(["*"]);
    let maker = with(&[Right::SourcesWrite]).await;
    maker.put("/v1/toolsets/waiting", &own).await.expect_ok();
    put(&server, "ready", &own).await;
    let ann = agent(&server, &[]).await;
    assert_eq!(tool_names(&ann.with_endpoint("/mcp/waiting")).await, [""; 0]);
    assert_eq!(tool_names(&ann.with_endpoint("/mcp/ready")).await.len(), 2, "the control");
    for (field, value) in [
        ("tools", json!(["a b"])),
        ("roles", json!(["a b"])),
        ("grants", json!([])),
        ("tools", json!([{"pattern": "s.*", "name": "x"}])),
    ] {
        let mut body = team();
        body[field] = value;
        let owner = server.owner_client().await;
        assert_eq!(owner.put("/v1/toolsets/team", &body).await.status, 400, "{field}");
    }
}
