//! Tests of `/mcp/{source}`, the endpoint of a single source.

use std::sync::Arc;

use serde_json::{Value, json};
use testkit::executor::{MockExecutor, echo_executor};
use tool::ledger::RecordKind;
use tool::{ExecutionState, Json, Offer, Outcome, PermissionLevel};

use crate::support::client::message;
use crate::support::executors::{FailingExecutor, RpcErrorExecutor};
use crate::support::{Client, FixtureServer, test_server::ServerSetup, tools};

fn definition(name: &str) -> Value {
    json!({"name": name, "description": "d", "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": true, "vendorHint": 1},
        "execution": {"taskSupport": "optional"}, "vendor": {"n": 1.0}})
}

fn offers() -> Vec<Offer> {
    let said = |word: &'static str| {
        Arc::new(MockExecutor::new(move |args| {
            let fields = Json::object_from([("said", &Json::encode(word)), ("args", &args)]);
            Ok(ExecutionState::Completed(Outcome::from_value(fields)))
        }))
    };
    vec![
        tools::server_offer(&definition("search"), echo_executor()),
        tools::server_offer(&definition("read.file"), echo_executor()),
        tools::prompt_offer(&json!({"name": "greet", "description": "d", "vendor": 1})),
        tools::resource_offer(&json!({"uri": "test://a", "name": "a", "vendor": 1})),
        tools::resource_offer(&json!({"uriTemplate": "test://{id}", "name": "t"})),
        tools::method_offer("mcp.prompts.get", said("prompt")),
        tools::method_offer("mcp.resources.read", said("resource")),
        tools::method_offer(
            "mcp.completion.complete",
            Arc::new(FailingExecutor(tool::ErrorCode::UpstreamFailed, "no completions today")),
        ),
    ]
}

async fn server(offers: Vec<Offer>) -> FixtureServer {
    let about = json!({"protocolVersion": "2025-11-25", "instructions": "be kind",
        "capabilities": {"tools": {}, "prompts": {}, "tasks": {}, "experimental": {"x": {}}},
        "serverInfo": {"name": "upstream", "version": "7", "icons": []}});
    let about = Some(Json::encode(&about));
    FixtureServer::with_setup(ServerSetup {
        offers,
        kind: Some("mcp"),
        source_about: about,
        ..ServerSetup::default()
    })
    .await
}

/// Both dialects give the same result; what only one has is left out.
async fn asked(client: &Client, method: &str, params: Value) -> Value {
    let old = client.legacy_request(&message(method, params.clone())).await.expect_ok();
    let mut new = client.modern_request(method, params).await.expect_ok();
    if let Some(result) = new.get_mut("result").and_then(Value::as_object_mut) {
        assert_eq!(result.remove("resultType"), Some(json!("complete")), "{method}");
        for hint in ["ttlMs", "cacheScope"] {
            result.remove(hint);
        }
    }
    assert_eq!(old, new, "{method}");
    old
}

#[tokio::test]
async fn definitions_are_the_servers_own_bytes() {
    let server = server(offers()).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let own = asked(&ann.with_endpoint("/mcp/s"), "tools/list", json!({})).await;
    let listed = own["result"]["tools"].as_array().unwrap();
    assert_eq!(listed[0].to_string(), definition("search").to_string());
    assert_eq!(listed.len(), 2);
    // At the endpoint of all, only the name is another; what is unknown here stays.
    let all = asked(&ann, "tools/list", json!({})).await;
    let mut expected = definition("search");
    expected["name"] = json!("s.search");
    assert_eq!(all["result"]["tools"][0].to_string(), expected.to_string());
}

/// The hints of an untrusted server were forwarded as Toolkeep's own at both endpoints.
#[tokio::test]
async fn hints_that_do_not_hold_are_at_no_endpoint() {
    let claims = json!({"name": "wipe", "description": "d", "inputSchema": {"type": "object"},
        "annotations": {"title": "Wipe", "readOnlyHint": true, "destructiveHint": false}});
    let of = |trusted: bool| {
        let mut definition = tools::received_tool(&claims);
        definition.name = tool::ToolName::new("s.wipe").unwrap();
        definition.traits.effects = tool::SideEffects::Unknown;
        definition.traits.trusted_annotations = trusted;
        tools::tool_offer(definition, echo_executor())
    };
    for (trusted, expected) in
        [(false, json!({"title": "Wipe"})), (true, claims["annotations"].clone())]
    {
        let server = server(vec![of(trusted)]).await;
        let ann = server.agent_client("ann", PermissionLevel::User).await;
        for client in [&ann, &ann.with_endpoint("/mcp/s")] {
            let list = asked(client, "tools/list", json!({})).await;
            assert_eq!(list["result"]["tools"][0]["annotations"], expected, "{trusted}");
        }
    }
}

#[tokio::test]
async fn tools_are_called_by_their_own_names() {
    let server = server(offers()).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let own = ann.with_endpoint("/mcp/s");
    for (client, good, bad) in
        [(&own, "read.file", "s.read.file"), (&ann, "s.read.file", "read.file")]
    {
        let called =
            asked(client, "tools/call", json!({"name": good, "arguments": {"a": 1}})).await;
        assert_eq!(called["result"]["structuredContent"], json!({"a": 1}));
        let refused = asked(client, "tools/call", json!({"name": bad})).await;
        let error = json!({"code": -32_602, "message": format!("unknown tool `{bad}`")});
        assert_eq!(refused["error"], error);
    }
    assert_eq!((server.recorded_intents().len(), server.recorded_refusals().len()), (4, 4));
}

/// A tool of one endpoint cannot be called at another, even by its full name.
#[tokio::test]
async fn an_endpoint_holds_its_source_only() {
    let mut offers = offers();
    offers.push(tools::tool_offer(tools::test_tool("s.twin"), echo_executor()));
    let server = FixtureServer::with_setup(ServerSetup {
        offers,
        kind: Some("tool_file"),
        ..ServerSetup::default()
    })
    .await;
    let own = server.agent_client("ann", PermissionLevel::User).await.with_endpoint("/mcp/s");
    let list = asked(&own, "tools/list", json!({})).await;
    let names: Vec<_> =
        list["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["s.search", "s.read.file", "s.twin"], "names as they are given");
    asked(&own, "tools/call", json!({"name": "s.twin"})).await["result"].as_object().unwrap();
    for (query, status) in [("?names=safe", 400), ("?names=native", 400), ("", 200)] {
        let reply = own
            .with_endpoint(&format!("/mcp/s{query}"))
            .legacy_request(&message("ping", json!({})))
            .await;
        assert_eq!(reply.status, status, "{query}");
    }
}

#[tokio::test]
async fn unknown_and_unseen_sources_are_one_answer() {
    let hidden = vec![tools::tool_offer(
        tools::tool_with("s.x", |t| t.traits.min_level = PermissionLevel::Owner),
        echo_executor(),
    )];
    let server = server(hidden).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for method in ["initialize", "ping", "tools/list", "tools/call", "prompts/list", "no/such"] {
        let ask = |endpoint: &'static str| {
            let (ann, message) =
                (ann.with_endpoint(endpoint), message(method, json!({"name": "x"})));
            async move { ann.legacy_request(&message).await }
        };
        let (unseen, unknown) = (ask("/mcp/s").await, ask("/mcp/n").await);
        assert_eq!((unseen.status.as_u16(), unknown.status.as_u16()), (404, 404), "{method}");
        assert_eq!(unseen.text().replace("`s`", "`n`"), unknown.text());
        assert_eq!(unknown.json()["error"]["message"], "no source `n`");
        assert_eq!(unknown.json()["id"], 1);
    }
    assert_eq!(server.ledger.all_records(), []);
    // Positive control: a caller who sees the source gets it.
    let owner = server.owner_client().await.with_endpoint("/mcp/s");
    let list = asked(&owner, "tools/list", json!({})).await;
    assert_eq!(list["result"]["tools"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn an_endpoint_says_what_its_source_says_and_what_is_passed_on() {
    let server = server(offers()).await;
    let own = server.agent_client("ann", PermissionLevel::User).await.with_endpoint("/mcp/s");
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}});
    let begun =
        own.legacy_request(&message("initialize", params)).await.expect_ok()["result"].clone();
    let capabilities = json!({"logging": {}, "tools": {"listChanged": true},
        "prompts": {"listChanged": true}, "resources": {"listChanged": true}, "completions": {}});
    let info = json!({"name": "upstream", "version": "7", "icons": []});
    let expected = json!({"protocolVersion": "2025-06-18", "capabilities": capabilities,
        "serverInfo": info, "instructions": "be kind"});
    assert_eq!(begun, expected);
    let found =
        own.modern_request("server/discover", json!({})).await.expect_ok()["result"].clone();
    let mut modern = capabilities;
    modern["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
    assert_eq!(found["capabilities"], modern);
    assert_eq!(found["instructions"], "be kind");
    assert_eq!(found["_meta"]["io.modelcontextprotocol/serverInfo"], info);
}

#[tokio::test]
async fn prompts_and_resources_are_listed_as_received() {
    let server = server(offers()).await;
    let own = server.agent_client("ann", PermissionLevel::User).await.with_endpoint("/mcp/s");
    for (method, member, first) in [
        ("prompts/list", "prompts", json!({"name": "greet", "description": "d", "vendor": 1})),
        ("resources/list", "resources", json!({"uri": "test://a", "name": "a", "vendor": 1})),
        (
            "resources/templates/list",
            "resourceTemplates",
            json!({"uriTemplate": "test://{id}", "name": "t"}),
        ),
    ] {
        let result = asked(&own, method, json!({})).await["result"].clone();
        assert_eq!(result, json!({ member: [first] }), "{method}");
        let modern = own.modern_request(method, json!({})).await.expect_ok()["result"].clone();
        assert_eq!((&modern["ttlMs"], &modern["cacheScope"]), (&json!(10_000), &json!("private")));
        let lost = asked(&own, method, json!({"cursor": "nothing"})).await;
        assert_eq!(lost["error"]["code"], -32_602);
    }
}

#[tokio::test]
async fn long_lists_come_in_pages() {
    let mut offers = offers();
    offers.extend(
        (0..1_500).map(|i| {
            tools::resource_offer(&json!({"uri": format!("test://r/{i:04}"), "name": "r"}))
        }),
    );
    let server = server(offers).await;
    let own = server.agent_client("ann", PermissionLevel::User).await.with_endpoint("/mcp/s");
    let first = asked(&own, "resources/list", json!({})).await["result"].clone();
    let next = json!({"cursor": first["nextCursor"]});
    let second = asked(&own, "resources/list", next).await["result"].clone();
    let size = |page: &Value| page["resources"].as_array().unwrap().len();
    assert_eq!((size(&first), size(&second)), (1_000, 501));
    assert_eq!(second["resources"][500]["uri"], "test://r/1499");
    assert!(second.get("nextCursor").is_none());
}

#[tokio::test]
async fn methods_run_through_the_pipeline_and_are_on_record() {
    let server = server(offers()).await;
    let own = server.agent_client("ann", PermissionLevel::User).await.with_endpoint("/mcp/s");
    let params = json!({"name": "greet", "arguments": {"a": "b"}});
    let got = asked(&own, "prompts/get", params.clone()).await["result"].clone();
    assert_eq!(
        got,
        json!({"said": "prompt", "args": params}),
        "`_meta` is no part of the arguments"
    );
    let read = asked(&own, "resources/read", json!({"uri": "test://a"})).await["result"].clone();
    assert_eq!(read, json!({"said": "resource", "args": {"uri": "test://a"}}));
    let failed = asked(&own, "completion/complete", json!({"ref": {}})).await["error"].clone();
    assert_eq!(failed["message"], "upstream_failed: no completions today");
    let names: Vec<_> =
        server.recorded_intents().iter().map(|intent| intent.tool_key.name.to_string()).collect();
    let twice = |name: &'static str| [name, name];
    let expected =
        [twice("mcp.prompts.get"), twice("mcp.resources.read"), twice("mcp.completion.complete")];
    assert_eq!(names, expected.concat());
    let ends =
        server.ledger.all_records().into_iter().filter(|frame| frame.kind == RecordKind::Outcome);
    assert_eq!(ends.count(), 6);
}

/// Read content must have cache hints, whatever its origin.
#[tokio::test]
async fn what_is_read_says_how_long_it_holds() {
    let server = server(offers()).await;
    let own = server.agent_client("ann", PermissionLevel::User).await.with_endpoint("/mcp/s");
    let read = own.modern_request("resources/read", json!({"uri": "test://a"})).await.expect_ok();
    assert_eq!(
        (&read["result"]["ttlMs"], &read["result"]["cacheScope"]),
        (&json!(0), &json!("private"))
    );
    let read = own
        .legacy_request(&message("resources/read", json!({"uri": "test://a"})))
        .await
        .expect_ok();
    assert!(read["result"].get("ttlMs").is_none());
}

#[tokio::test]
async fn a_source_without_a_method_does_not_have_it() {
    let server = server(vec![tools::server_offer(&definition("a"), echo_executor())]).await;
    let own = server.agent_client("ann", PermissionLevel::User).await.with_endpoint("/mcp/s");
    for method in [
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "completion/complete",
    ] {
        let params = json!({"name": "x", "uri": "x"});
        let old = own.legacy_request(&message(method, params.clone())).await.expect_ok();
        assert_eq!(old["error"]["code"], -32_601, "{method}");
        let new = own.modern_request(method, params).await;
        assert_eq!((new.status.as_u16(), &new.json()["error"]["code"]), (404, &json!(-32_601)));
    }
    assert_eq!(server.ledger.all_records(), []);
}

/// An error of the source keeps its code and data at its own endpoint. An error of our connection
/// to it does not become an error of the client.
#[tokio::test]
async fn errors_of_the_source_are_its_own() {
    let erring = |code| Arc::new(RpcErrorExecutor(code));
    let server = server(vec![
        tools::server_offer(&definition("errs"), erring(-32_042)),
        tools::server_offer(&definition("lacks"), erring(-32_021)),
        tools::server_offer(&definition("has_not"), erring(-32_601)),
        tools::method_offer("mcp.prompts.get", erring(-32_002)),
        tools::method_offer("mcp.resources.read", erring(-32_020)),
    ])
    .await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let own = ann.with_endpoint("/mcp/s");
    let error =
        |code: i64| json!({"code": code, "message": "its own\\u{200b} words", "data": {"a": 1.0}});
    for (method, params, code) in [
        ("tools/call", json!({"name": "errs"}), -32_042),
        ("resources/read", json!({"uri": "x"}), -32_603),
    ] {
        assert_eq!(asked(&own, method, params).await["error"], error(code), "{method}");
    }
    for (name, status) in [("lacks", 400), ("has_not", 404)] {
        let (call, new) =
            (json!({"name": name}), own.modern_request("tools/call", json!({"name": name})).await);
        assert_eq!(new.status, status, "{name}");
        assert_eq!(own.legacy_request(&message("tools/call", call)).await.status, 200, "{name}");
    }
    // The endpoint of all sources also names the missing capability, for clients that support the
    // error.
    let lacks = json!({"name": "s.lacks"});
    let new = ann.modern_request("tools/call", lacks.clone()).await;
    assert_eq!((new.status.as_u16(), &new.json()["error"]), (400, &error(-32_021)));
    let old = ann.legacy_request(&message("tools/call", lacks)).await.expect_ok();
    let told = "upstream_failed: it answered with an error";
    assert_eq!(old["result"]["content"][0]["text"], told);
    // A missing resource has a code of its own in the older revisions only.
    let old = own.legacy_request(&message("prompts/get", json!({"name": "x"}))).await.expect_ok();
    let new = own.modern_request("prompts/get", json!({"name": "x"})).await.expect_ok();
    assert_eq!((&old["error"], &new["error"]), (&error(-32_002), &error(-32_602)));
    let all = asked(&ann, "tools/call", json!({"name": "s.errs"})).await;
    let told = "upstream_failed: it answered with an error";
    assert_eq!(all["result"]["content"][0]["text"], told);
    // A client of 2025-11-25 that opens addresses gets those that it must open, and no other error.
    for (elicitation, is_told) in [(json!({"url": {}}), true), (json!({"form": {}}), false)] {
        let session = ann.open_session(json!({"elicitation": elicitation})).await;
        let call = |name: &str| message("tools/call", json!({"name": name}));
        let errs = session.legacy_request(&call("s.errs")).await.expect_ok();
        assert_eq!(errs.get("error"), is_told.then(|| error(-32_042)).as_ref(), "{errs}");
        let other = session.legacy_request(&call("s.has_not")).await.expect_ok();
        assert_eq!(other["result"]["isError"], true, "{other}");
    }
}
