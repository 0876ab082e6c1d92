//! Spec 0's routes: its shapes, its texts, and that they give nobody more than its key does.

use serde_json::{Value, json};
use testkit::executor::{Scripted, echo};
use testkit::source::Answer;
use tool::source::SourceFault;
use tool::{Code, Level, Listing, Offer, Outcome, Problem, Safety, SourceError, Step};

use crate::support::executors::Failing;
use crate::support::tools::{offer, tool, with};
use crate::support::{Client, Server, Setup};

/// A module `s` with one tool of each kind.
fn offers() -> Vec<Offer> {
    let level = |level: Level| {
        let name = format!("s.{level}");
        offer(with(&name, |tool| tool.traits.level = level), echo())
    };
    let mut offers: Vec<_> = Level::ALL.iter().copied().map(level).collect();
    let says = |outcome: fn() -> Outcome| {
        std::sync::Arc::new(Scripted::new(move |_| Ok(Step::Done(outcome()))))
    };
    offers.extend([
        offer(tool("s.says_error"), says(|| Outcome::failed("no such note"))),
        offer(tool("s.status"), failing("Module returned status 500: Internal Server Error")),
        offer(tool("s.network"), failing("Tool execution error: Connection refused")),
        offer(with("s.dangerous", |tool| tool.traits.safety = Safety::Dangerous), echo()),
        offer(tool("plain"), echo()),
    ]);
    offers
}

fn failing(text: &'static str) -> std::sync::Arc<Failing> {
    std::sync::Arc::new(Failing(Code::UpstreamFailed, text))
}

async fn server() -> Server {
    Server::with(Setup { offers: offers(), kind: Some("module"), ..Setup::default() }).await
}

/// A call by spec 0's route; its answer always comes with status 200.
async fn execute(client: &Client, call: Value) -> Value {
    client.post("/execute", &call).await.good()
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
async fn a_call_has_spec_0s_tool_result() {
    let server = server().await;
    let ann = server.agent("ann", Level::User).await;
    let result = execute(&ann, json!({ "tool_name": "s.user", "arguments": { "n": 3 } })).await;
    let expected =
        json!({ "tool_name": "s.user", "success": true, "result": { "n": 3 }, "error": null });
    assert_eq!(result, expected);
    // Arguments may be left out or null; what is not known beside them is not looked at.
    for call in [
        json!({ "tool_name": "s.user" }),
        json!({ "tool_name": "s.user", "arguments": null, "conversation_id": "c", "x": 1 }),
    ] {
        assert_eq!(execute(&ann, call).await["result"], json!({}));
    }
    let module = "/api/modules/s/execute";
    let call = json!({ "tool_name": "s.user", "arguments": { "n": 3 } });
    assert_eq!(ann.post(module, &call).await.good(), expected);
}

#[tokio::test]
async fn what_goes_wrong_has_spec_0s_texts() {
    let server = server().await;
    let ann = server.agent("ann", Level::User).await;
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
async fn a_tool_that_hangs_has_spec_0s_text_with_whole_seconds() {
    let hang = with("s.slow", |tool| {
        tool.traits.timeout = Some(std::time::Duration::from_secs(1));
    });
    let gate = crate::support::executors::Gate::new();
    let server = Server::of(vec![offer(hang, gate)]).await;
    let ann = server.agent("ann", Level::User).await;
    assert_eq!(error(&ann, "s.slow").await, "Tool execution timed out (1s).");
}

#[tokio::test]
async fn hidden_and_unknown_have_one_text() {
    let server = server().await;
    let guest = server.agent("ann", Level::Guest).await;
    // Above its level: as one that is not there.
    assert_eq!(error(&guest, "s.owner").await, "Unknown tool: s.owner");
    assert_eq!(error(&guest, "s.nobody").await, "Unknown tool: s.nobody");
    // Of a module that its persona lacks: as a module that is not there.
    let elsewhere = server
        .client(|key| {
            let allowed_modules = Some(["other".to_owned()].into());
            key.persona = Some(identity::Persona { name: "p".to_owned(), allowed_modules });
        })
        .await;
    assert_eq!(error(&elsewhere, "s.guest").await, "Unknown module: s");
    assert_eq!(error(&elsewhere, "t.guest").await, "Unknown module: t");
    // The control: who may have it, calls it.
    assert_eq!(execute(&guest, json!({ "tool_name": "s.guest" })).await["success"], true);
}

/// What a model was shown in its provider's form, and calls by the name it has there.
#[tokio::test]
async fn a_call_takes_the_names_of_the_providers_forms() {
    let server = server().await;
    let ann = server.agent("ann", Level::User).await;
    let shown = ann.get("/v1/tools?format=openai&allowed_tools=s.user").await.good();
    let alias = shown["tools"][0]["function"]["name"].as_str().unwrap().to_owned();
    assert_eq!(alias, "s_user");
    for path in ["/execute", "/api/modules/s/execute"] {
        let result = ann.post(path, &json!({ "tool_name": alias })).await.good();
        assert_eq!((&result["success"], &result["tool_name"]), (&json!(true), &json!(alias)));
        // Of a tool above its level it is no name at all.
        let result = ann.post(path, &json!({ "tool_name": "s_owner" })).await.good();
        let told = result["error"].as_str().unwrap();
        assert!(told.contains("s_owner") && !told.contains("s.owner"), "{told}");
    }
}

#[tokio::test]
async fn a_module_that_was_never_reached_says_so_to_those_who_may_have_it() {
    let problem = Problem::new("http://s/manifest", "Connection refused");
    let server = Server::away(SourceError { kind: SourceFault::Unreachable, problem }).await;
    let ann = server.agent("ann", Level::User).await;
    let refused = "Tool execution error: Connection refused";
    assert_eq!(error(&ann, "s.user").await, refused);
    let at = ann.post("/api/modules/s/execute", &json!({ "tool_name": "s.user" })).await.good();
    assert_eq!(at["error"], refused);
    assert_eq!(error(&ann, "t.user").await, "Unknown module: t");
    let elsewhere = server
        .client(|key| {
            let allowed_modules = Some(["other".to_owned()].into());
            key.persona = Some(identity::Persona { name: "p".to_owned(), allowed_modules });
        })
        .await;
    assert_eq!(error(&elsewhere, "s.user").await, "Unknown module: s");
}

#[tokio::test]
async fn user_permission_can_only_lower_and_its_denial_has_spec_0s_text() {
    let server = server().await;
    let user = server.agent("ann", Level::User).await;
    let as_who = async |name: &str, level: &str| {
        let call = json!({ "tool_name": name, "user_permission": level });
        execute(&user, call).await["error"].as_str().unwrap_or("none").to_owned()
    };
    let denied = "Permission denied: s.user requires 'user' but user has 'guest'";
    assert_eq!(as_who("s.user", "guest").await, denied);
    assert_eq!(as_who("s.user", "nonsense").await, denied, "an unknown word is the lowest level");
    assert_eq!(as_who("s.user", "user").await, "none");
    // Higher than its key: changes nothing, and tells nothing.
    assert_eq!(as_who("s.user", "owner").await, "none");
    assert_eq!(as_who("s.owner", "owner").await, "Unknown tool: s.owner");
}

#[tokio::test]
async fn a_user_id_in_the_body_is_nobodys_identity() {
    let server = server().await;
    let ann = server.agent("ann", Level::User).await;
    let call = json!({ "tool_name": "s.user", "user_id": "bob", "arguments": {} });
    assert_eq!(execute(&ann, call).await["success"], true);
    let records = server.owner().await.get("/v1/records").await.good();
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
async fn the_tools_have_spec_0s_definitions_at_the_asked_permission() {
    let server = server().await;
    let admin = server.agent("ann", Level::Admin).await;
    let list = async |query: &str| admin.get(&format!("/tools{query}")).await.good();
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
    let owner = server.owner().await;
    let refreshed = owner.post("/refresh-tools", &json!({})).await.good();
    assert_eq!(refreshed, json!({ "status": "ok", "modules": ["s"] }));
    let ann = server.agent("ann", Level::Admin).await;
    assert_eq!(ann.post("/refresh-tools", &json!({})).await.error().0, 403);
    // No body at all, as `curl -X POST` sends it.
    let bare = owner.send(http::Method::POST, "/refresh-tools", bytes::Bytes::new()).await;
    assert_eq!(bare.status, 200);
}

#[tokio::test]
async fn the_modules_are_shown_with_how_they_are() {
    let server = server().await;
    let owner = server.owner().await;
    let module = |tools: usize| {
        json!({
            "name": "s", "url": null, "health": "healthy", "tools": tools, "stale": false,
            "stale_since": null, "problem": null, "problems": [],
        })
    };
    let shown = owner.get("/api/modules").await.good();
    assert_eq!(shown, json!({ "modules": [module(offers().len())] }));
    let guest = server.agent("ann", Level::Guest).await;
    assert_eq!(guest.get("/api/modules").await.good()["modules"][0], module(offers().len() - 3));
    // Away: what it offered is kept and marked; why it is away is for those who can mend it.
    let problem = Problem::new("http://s/manifest", "Connection refused");
    server.source.set(Answer::Error(SourceError { kind: SourceFault::Unreachable, problem }));
    owner.post("/refresh-tools", &json!({})).await.good();
    let away = owner.get("/api/modules").await.good()["modules"][0].clone();
    assert_eq!(
        (&away["health"], &away["stale"], &away["problem"], &away["tools"]),
        (&json!("unreachable"), &json!(true), &json!("Connection refused"), &json!(offers().len()))
    );
    assert!(away["stale_since"].is_string());
    assert_eq!(guest.get("/api/modules").await.good()["modules"][0]["problem"], Value::Null);
    // A module that the persona lacks is none.
    let elsewhere = server
        .client(|key| {
            let allowed_modules = Some(["other".to_owned()].into());
            key.persona = Some(identity::Persona { name: "p".to_owned(), allowed_modules });
        })
        .await;
    assert_eq!(elsewhere.get("/api/modules").await.good(), json!({ "modules": [] }));
}

#[tokio::test]
async fn a_module_runs_its_own_tools_alone() {
    let server = server().await;
    let ann = server.agent("ann", Level::User).await;
    let at = async |module: &str, name: &str| {
        let path = format!("/api/modules/{module}/execute");
        let result = ann.post(&path, &json!({ "tool_name": name })).await.good();
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
    let ann = server.agent("ann", Level::User).await;
    for path in ["/execute", "/api/modules/s/execute"] {
        let (status, code, told) = ann.post(path, &json!({ "arguments": {} })).await.error();
        assert_eq!((status, code.as_str()), (400, "invalid_request"));
        assert!(told.contains("tool_name"), "{told}");
        let no_object = json!({ "tool_name": "s.guest", "arguments": [1] });
        let result = ann.post(path, &no_object).await.good();
        assert!(result["error"].as_str().unwrap().contains("expected object"), "{result}");
    }
}

#[tokio::test]
async fn without_a_key_spec_0s_words_stand_beside_ours() {
    let server = server().await;
    for path in ["/tools", "/api/modules"] {
        let missing = server.anyone().get(path).await;
        assert_eq!(missing.json()["detail"], "Missing service auth token", "{path}");
        assert_eq!(missing.error().1, "unauthenticated");
        let wrong = server.anyone().key("tk_wrong", "wrong").get(path).await;
        assert_eq!(wrong.json()["detail"], "Invalid service auth token", "{path}");
        let basic = server.anyone().with("authorization", "Basic eDp5").get(path).await;
        assert_eq!(basic.json()["detail"], "Missing service auth token", "{path}");
    }
    assert_eq!(server.anyone().get("/v1/tools").await.json()["detail"], Value::Null);
    assert_eq!(server.anyone().get("/health").await.good(), json!({ "status": "ok" }));
}

/// A module that comes back is tried again after 5, 10, 20 and 30 s; whoever lists first does not wait
/// for that.
#[tokio::test]
async fn the_first_list_discovers_where_nothing_is_known() {
    let server = Server::with(Setup { kind: Some("module"), ..Setup::default() }).await;
    let problem = Problem::new("http://s/manifest", "Connection refused");
    let ann = server.agent("ann", Level::User).await;
    assert_eq!(names(&ann.get("/tools").await.good()), [""; 0]);
    drop(server);
    let away = SourceError { kind: SourceFault::Unreachable, problem };
    let server = Server::away(away).await;
    let ann = server.agent("ann", Level::User).await;
    server.source.set(Answer::Listing(Listing { offers: offers(), ..Listing::default() }));
    assert!(names(&ann.get("/tools").await.good()).contains(&"s.user".to_owned()));
}
