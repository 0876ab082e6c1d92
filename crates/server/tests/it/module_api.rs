//! Tests of the module API's routes: shapes and texts, and no more rights than the key has.

use serde_json::{Value, json};
use testkit::executor::{MockExecutor, echo_executor};
use testkit::source::MockListing;
use tool::source::SourceErrorKind;
use tool::{
    ErrorCode, ExecutionState, Offer, Outcome, PermissionLevel, Problem, SafetyLevel, SourceError,
    SourceListing,
};

use crate::support::executors::FailingExecutor;
use crate::support::tools::{test_tool, tool_offer, tool_with};
use crate::support::{Client, FixtureServer, ServerSetup};

/// A module `s` with one tool of each kind.
fn offers() -> Vec<Offer> {
    let level = |level: PermissionLevel| {
        let name = format!("s.{level}");
        tool_offer(tool_with(&name, |tool| tool.traits.min_level = level), echo_executor())
    };
    let mut offers: Vec<_> = PermissionLevel::ALL.iter().copied().map(level).collect();
    let says = |outcome: fn() -> Outcome| {
        std::sync::Arc::new(MockExecutor::new(move |_| Ok(ExecutionState::Completed(outcome()))))
    };
    offers.extend([
        tool_offer(test_tool("s.says_error"), says(|| Outcome::tool_failure("no such note"))),
        tool_offer(
            test_tool("s.status"),
            failing("Module returned status 500: Internal Server Error"),
        ),
        tool_offer(test_tool("s.network"), failing("Tool execution error: Connection refused")),
        tool_offer(
            tool_with("s.dangerous", |tool| tool.traits.safety = SafetyLevel::Dangerous),
            echo_executor(),
        ),
        tool_offer(test_tool("plain"), echo_executor()),
    ]);
    offers
}

fn failing(text: &'static str) -> std::sync::Arc<FailingExecutor> {
    std::sync::Arc::new(FailingExecutor(ErrorCode::UpstreamFailed, text))
}

async fn server() -> FixtureServer {
    FixtureServer::with_setup(ServerSetup {
        offers: offers(),
        kind: Some("module"),
        ..ServerSetup::default()
    })
    .await
}

/// A call by the module API's route; its answer always comes with status 200.
async fn execute(client: &Client, call: Value) -> Value {
    client.post("/execute", &call).await.expect_ok()
}

async fn error(client: &Client, name: &str) -> String {
    let result = execute(client, json!({ "tool_name": name })).await;
    assert_eq!((&result["success"], &result["result"]), (&json!(false), &Value::Null));
    assert_eq!(result["tool_name"], name);
    result["error"].as_str().unwrap().to_owned()
}

fn names(tools: &Value) -> Vec<String> {
    let tools = tools["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_call_returns_the_module_api_tool_result() {
    let server = server().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let result = execute(&ann, json!({ "tool_name": "s.user", "arguments": { "n": 3 } })).await;
    let expected =
        json!({ "tool_name": "s.user", "success": true, "result": { "n": 3 }, "error": null });
    assert_eq!(result, expected);
    // Arguments may be missing or null; unknown fields are ignored.
    for call in [
        json!({ "tool_name": "s.user" }),
        json!({ "tool_name": "s.user", "arguments": null, "conversation_id": "c", "x": 1 }),
    ] {
        assert_eq!(execute(&ann, call).await["result"], json!({}));
    }
    let module = "/api/modules/s/execute";
    let call = json!({ "tool_name": "s.user", "arguments": { "n": 3 } });
    assert_eq!(ann.post(module, &call).await.expect_ok(), expected);
}

#[tokio::test]
async fn errors_have_the_module_api_texts() {
    let server = server().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for (name, told) in [
        ("xyz", "Invalid tool name format: xyz. Expected 'module.tool_name'."),
        ("nobody.t", "Unknown module: nobody"),
        ("s.nothing", "Unknown tool: s.nothing"),
        ("s.a.b", "Unknown tool: s.a.b"),
        ("s.says_error", "no such note"),
        ("s.status", "Module returned status 500: Internal Server Error"),
        ("s.network", "Tool execution error: Connection refused"),
    ] {
        assert_eq!(error(&ann, name).await, told);
    }
    assert!(error(&ann, "s.dangerous").await.contains("needs an approval"));
    // A name without a dot that is there is called.
    assert_eq!(execute(&ann, json!({ "tool_name": "plain" })).await["success"], true);
    let bad = execute(&ann, json!({ "tool_name": "s.user", "arguments": { "n": 11 } })).await;
    assert!(bad["error"].as_str().unwrap().contains("maximum"), "{bad}");
}

#[tokio::test]
async fn a_tool_that_hangs_has_the_module_api_text_with_whole_seconds() {
    let hang = tool_with("s.slow", |tool| {
        tool.traits.timeout = Some(std::time::Duration::from_secs(1));
    });
    let gate = crate::support::executors::Gate::new();
    let server = FixtureServer::with_offers(vec![tool_offer(hang, gate)]).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    assert_eq!(error(&ann, "s.slow").await, "Tool execution timed out (1s).");
}

#[tokio::test]
async fn hidden_and_unknown_have_one_text() {
    let server = server().await;
    let guest = server.agent_client("ann", PermissionLevel::Guest).await;
    // Above its level: as one that is not there.
    assert_eq!(error(&guest, "s.owner").await, "Unknown tool: s.owner");
    assert_eq!(error(&guest, "s.nobody").await, "Unknown tool: s.nobody");
    // Of a module that its persona lacks: as a module that is not there.
    let elsewhere = server
        .client_with(|key| {
            let allowed_modules = Some(["other".to_owned()].into());
            key.persona = Some(identity::Persona { name: "p".to_owned(), allowed_modules });
        })
        .await;
    assert_eq!(error(&elsewhere, "s.guest").await, "Unknown module: s");
    assert_eq!(error(&elsewhere, "t.guest").await, "Unknown module: t");
    // Control: an authorised caller can call it.
    assert_eq!(execute(&guest, json!({ "tool_name": "s.guest" })).await["success"], true);
}

/// A model's call by the name that its provider's format has.
#[tokio::test]
async fn a_call_takes_the_names_of_the_providers_forms() {
    let server = server().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let shown = ann.get("/v1/tools?format=openai&allowed_tools=s.user").await.expect_ok();
    let alias = shown["tools"][0]["function"]["name"].as_str().unwrap().to_owned();
    assert_eq!(alias, "s_user");
    for path in ["/execute", "/api/modules/s/execute"] {
        let result = ann.post(path, &json!({ "tool_name": alias })).await.expect_ok();
        assert_eq!((&result["success"], &result["tool_name"]), (&json!(true), &json!(alias)));
        // Of a tool above its level it is no name at all.
        let result = ann.post(path, &json!({ "tool_name": "s_owner" })).await.expect_ok();
        let told = result["error"].as_str().unwrap();
        assert!(told.contains("s_owner") && !told.contains("s.owner"), "{told}");
    }
}

#[tokio::test]
async fn a_module_that_was_never_reached_says_so_to_those_who_may_have_it() {
    let problem = Problem::new("http://s/manifest", "Connection refused");
    let server = FixtureServer::with_unavailable_module(SourceError {
        kind: SourceErrorKind::Unreachable,
        problem,
    })
    .await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let refused = "Tool execution error: Connection refused";
    assert_eq!(error(&ann, "s.user").await, refused);
    let at =
        ann.post("/api/modules/s/execute", &json!({ "tool_name": "s.user" })).await.expect_ok();
    assert_eq!(at["error"], refused);
    assert_eq!(error(&ann, "t.user").await, "Unknown module: t");
    let elsewhere = server
        .client_with(|key| {
            let allowed_modules = Some(["other".to_owned()].into());
            key.persona = Some(identity::Persona { name: "p".to_owned(), allowed_modules });
        })
        .await;
    assert_eq!(error(&elsewhere, "s.user").await, "Unknown module: s");
}

#[tokio::test]
async fn user_permission_can_only_lower_and_its_denial_has_the_module_api_text() {
    let server = server().await;
    let user = server.agent_client("ann", PermissionLevel::User).await;
    let as_who = async |name: &str, level: &str| {
        let call = json!({ "tool_name": name, "user_permission": level });
        execute(&user, call).await["error"].as_str().unwrap_or("none").to_owned()
    };
    let denied = "Permission denied: s.user requires 'user' but user has 'guest'";
    assert_eq!(as_who("s.user", "guest").await, denied);
    assert_eq!(as_who("s.user", "nonsense").await, denied, "an unknown word is the lowest level");
    assert_eq!(as_who("s.user", "user").await, "none");
    // A level above the key's has no effect, and reveals nothing.
    assert_eq!(as_who("s.user", "owner").await, "none");
    assert_eq!(as_who("s.owner", "owner").await, "Unknown tool: s.owner");
}

#[tokio::test]
async fn a_user_id_in_the_body_is_nobodys_identity() {
    let server = server().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let call = json!({ "tool_name": "s.user", "user_id": "bob", "arguments": {} });
    assert_eq!(execute(&ann, call).await["success"], true);
    let records = server.owner_client().await.get("/v1/records").await.expect_ok();
    let intents: Vec<_> = records["records"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|record| record["kind"] == "intent")
        .map(|record| record["body"]["caller"]["subject"].as_str().unwrap())
        .collect();
    assert_eq!(intents, ["ann"]);
}

#[tokio::test]
async fn the_tools_have_module_api_definitions_at_the_requested_permission() {
    let server = server().await;
    let admin = server.agent_client("ann", PermissionLevel::Admin).await;
    let list = async |query: &str| admin.get(&format!("/tools{query}")).await.expect_ok();
    let all = list("").await;
    let first = json!({
        "name": "s.guest", "description": "The tool s.guest.", "required_permission": "guest",
        "parameters": [
            { "name": "n", "type": "integer", "description": "", "required": false, "enum": null },
        ],
    });
    assert_eq!(all["tools"][0], first);
    assert_eq!(names(&all)[..3], ["s.guest", "s.user", "s.admin"]);
    assert!(!names(&all).contains(&"s.owner".to_owned()));
    assert_eq!(names(&list("?permission=owner").await), names(&all), "it raises nobody");
    for lowest in ["?permission=guest", "?permission=nonsense"] {
        let names = names(&list(lowest).await);
        assert!(names.contains(&"s.guest".to_owned()) && !names.contains(&"s.user".to_owned()));
    }
    let user = names(&list("?permission=user").await);
    assert!(user.contains(&"s.user".to_owned()) && !user.contains(&"s.admin".to_owned()));
}

#[tokio::test]
async fn refresh_tools_lists_anew_and_names_the_modules() {
    let server = server().await;
    let owner = server.owner_client().await;
    let refreshed = owner.post("/refresh-tools", &json!({})).await.expect_ok();
    assert_eq!(refreshed, json!({ "status": "ok", "modules": ["s"] }));
    let ann = server.agent_client("ann", PermissionLevel::Admin).await;
    assert_eq!(ann.post("/refresh-tools", &json!({})).await.error().0, 403);
    // No body at all, as `curl -X POST` sends it.
    let bare = owner.send(http::Method::POST, "/refresh-tools", bytes::Bytes::new()).await;
    assert_eq!(bare.status, 200);
}

#[tokio::test]
async fn the_modules_are_shown_with_how_they_are() {
    let server = server().await;
    let owner = server.owner_client().await;
    let module = |tools: usize| {
        json!({
            "name": "s", "url": null, "health": "healthy", "tools": tools, "stale": false,
            "stale_since": null, "problem": null, "problems": [],
        })
    };
    let shown = owner.get("/api/modules").await.expect_ok();
    assert_eq!(shown, json!({ "modules": [module(offers().len())] }));
    let guest = server.agent_client("ann", PermissionLevel::Guest).await;
    assert_eq!(
        guest.get("/api/modules").await.expect_ok()["modules"][0],
        module(offers().len() - 3)
    );
    // Unavailable: its tools are kept and marked; the reason is only for operators.
    let problem = Problem::new("http://s/manifest", "Connection refused");
    server.source.set_answer(MockListing::Error(SourceError {
        kind: SourceErrorKind::Unreachable,
        problem,
    }));
    owner.post("/refresh-tools", &json!({})).await.expect_ok();
    let away = owner.get("/api/modules").await.expect_ok()["modules"][0].clone();
    assert_eq!(
        (&away["health"], &away["stale"], &away["problem"], &away["tools"]),
        (&json!("unreachable"), &json!(true), &json!("Connection refused"), &json!(offers().len()))
    );
    assert!(away["stale_since"].is_string());
    assert_eq!(guest.get("/api/modules").await.expect_ok()["modules"][0]["problem"], Value::Null);
    // A module that the persona lacks is none.
    let elsewhere = server
        .client_with(|key| {
            let allowed_modules = Some(["other".to_owned()].into());
            key.persona = Some(identity::Persona { name: "p".to_owned(), allowed_modules });
        })
        .await;
    assert_eq!(elsewhere.get("/api/modules").await.expect_ok(), json!({ "modules": [] }));
}

#[tokio::test]
async fn a_module_runs_its_own_tools_alone() {
    let server = server().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let at = async |module: &str, name: &str| {
        let path = format!("/api/modules/{module}/execute");
        let result = ann.post(&path, &json!({ "tool_name": name })).await.expect_ok();
        result["error"].as_str().unwrap_or("none").to_owned()
    };
    assert_eq!(at("s", "s.guest").await, "none");
    assert_eq!(at("s", "plain").await, "Unknown tool: plain");
    assert_eq!(at("s", "t.guest").await, "Unknown tool: t.guest");
    assert_eq!(at("t", "s.guest").await, "Unknown module: t");
    assert_eq!(at("t", "t.guest").await, "Unknown module: t");
    // A beginning of the name is not the name.
    assert_eq!(at("s", "sx.guest").await, "Unknown tool: sx.guest");
}

/// The original fails with a status of 500 here.
#[tokio::test]
async fn a_body_that_is_no_call_is_told_as_such() {
    let server = server().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for path in ["/execute", "/api/modules/s/execute"] {
        let (status, code, told) = ann.post(path, &json!({ "arguments": {} })).await.error();
        assert_eq!((status, code.as_str()), (400, "invalid_request"));
        assert!(told.contains("tool_name"), "{told}");
        let no_object = json!({ "tool_name": "s.guest", "arguments": [1] });
        let result = ann.post(path, &no_object).await.expect_ok();
        assert!(result["error"].as_str().unwrap().contains("expected object"), "{result}");
    }
}

#[tokio::test]
async fn without_a_key_the_module_api_text_stands_beside_ours() {
    let server = server().await;
    for path in ["/tools", "/api/modules"] {
        let missing = server.keyless_client().get(path).await;
        assert_eq!(missing.json()["detail"], "Missing service auth token", "{path}");
        assert_eq!(missing.error().1, "unauthenticated");
        let wrong = server.keyless_client().with_key("tk_wrong", "wrong").get(path).await;
        assert_eq!(wrong.json()["detail"], "Invalid service auth token", "{path}");
        let basic =
            server.keyless_client().with_header("authorization", "Basic eDp5").get(path).await;
        assert_eq!(basic.json()["detail"], "Missing service auth token", "{path}");
    }
    assert_eq!(server.keyless_client().get("/v1/tools").await.json()["detail"], Value::Null);
    assert_eq!(server.keyless_client().get("/health").await.expect_ok(), json!({ "status": "ok" }));
}

/// An unavailable module is tried again after 5, 10, 20 and 30 s; the first list after its recovery
/// does not wait for that.
#[tokio::test]
async fn the_first_list_discovers_where_nothing_is_known() {
    let server =
        FixtureServer::with_setup(ServerSetup { kind: Some("module"), ..ServerSetup::default() })
            .await;
    let problem = Problem::new("http://s/manifest", "Connection refused");
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    assert_eq!(names(&ann.get("/tools").await.expect_ok()), [""; 0]);
    drop(server);
    let away = SourceError { kind: SourceErrorKind::Unreachable, problem };
    let server = FixtureServer::with_unavailable_module(away).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    server.source.set_answer(MockListing::Listing(SourceListing {
        offers: offers(),
        ..SourceListing::default()
    }));
    assert!(names(&ann.get("/tools").await.expect_ok()).contains(&"s.user".to_owned()));
}
