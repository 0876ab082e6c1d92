//! Where the programs behind specs 0 and 2 have a hole, and a copy of them would have it too.

use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::home::Home;
use crate::support::module::{Manner, Module};
use crate::support::server::{Server, serve};
use crate::support_real::{cli, good};

fn mock(name: &str, parameters: &Value, response: &Value) -> Value {
    json!({ "name": name, "description": "Answers always the same.", "parameters": parameters,
        "implementation": { "type": "mock", "mock_response": response } })
}

/// A home with these tools in a file.
fn home(tools: &[Value], policy: &Value) -> Home {
    let sources = json!([{ "name": "own", "tools": "./own.json" }]);
    let home =
        Home::new(&json!({ "version": 1, "sources": sources, "policy": policy }).to_string());
    home.write("own.json", &json!({ "tools": tools }).to_string());
    home
}

/// The original looks a tool up in the manifest only to read its level: one that is not there has none,
/// and is forwarded.
#[tokio::test]
async fn a_tool_that_its_module_does_not_list_is_not_forwarded() {
    let module = Module::start("good", Manner::Good).await;
    let source = json!([{ "name": "good", "module": module.url() }]);
    let home = Home::new(&json!({ "version": 1, "sources": source }).to_string());
    let server = serve(&home).await;
    let execute = async |tool: &str| {
        let call = json!({ "tool_name": tool, "arguments": {}, "user_permission": "owner" });
        good(server.owner().post("/execute", &call).await)
    };
    for (tool, error) in [
        ("good.wipe", "Unknown tool: good.wipe"),
        ("good.work.more", "Unknown tool: good.work.more"),
        ("work", "Invalid tool name format: work. Expected 'module.tool_name'."),
    ] {
        assert_eq!(execute(tool).await["error"], error);
    }
    assert_eq!(module.executed(), 0);
    // The control: what it lists is forwarded.
    assert_eq!(execute("good.work").await["success"], true);
    assert_eq!(module.executed(), 1);
}

/// The original spreads a handler's object over the answer, so that its keys become the answer's own.
#[tokio::test]
async fn the_keys_of_a_result_never_become_the_answers_own() {
    let claims = json!({ "success": false, "tool_name": "another", "error": "none", "status": "failed",
        "call_id": "mine", "execution_time_ms": -1 });
    let home = home(&[mock("claims", &json!({ "type": "object" }), &claims)], &json!({}));
    let server = serve(&home).await;
    let answer = good(server.agent().call("claims", &json!({})).await);
    assert_eq!(answer["result"], claims);
    assert_eq!((&answer["status"], &answer["tool"]), (&json!("succeeded"), &json!("claims")));
    assert_ne!(answer["call_id"], "mine");
    assert_eq!(answer.get("success").or(answer.get("error")), None, "{answer}");
}

/// The original compares the type of a value in its own language with the word of the schema, where no
/// value is ever an `integer`.
#[tokio::test]
async fn a_whole_number_is_an_integer_and_nothing_else_is() {
    let parameters = json!({ "type": "object", "required": ["n"],
        "properties": { "n": { "type": "integer" } } });
    let home = home(&[mock("count", &parameters, &json!(1))], &json!({}));
    let server = serve(&home).await;
    for (n, status) in [
        (json!(5), 200),
        (json!(-5), 200),
        (json!(5.0), 200),
        (json!(u64::MAX), 200),
        (json!(5.5), 400),
        (json!("5"), 400),
        (json!(true), 400),
        (json!(null), 400),
        (json!([5]), 400),
    ] {
        let reply = server.agent().call("count", &json!({ "n": n })).await;
        let code = if status == 200 { "" } else { "invalid_arguments" };
        assert_eq!((reply.status, reply.code()), (status, code), "{n}: {reply:?}");
    }
}

async fn names(client: &Client) -> Vec<String> {
    let tools = good(client.get("/v1/tools").await)["tools"].take();
    let names = tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap());
    names.map(str::to_owned).collect()
}

/// The original's list of allowed tools says what is offered, and its executor runs whatever is named.
#[tokio::test]
async fn a_tool_that_is_not_offered_does_not_run() {
    let plain = json!({ "type": "object" });
    let tools = [mock("open", &plain, &json!(1)), mock("shut", &plain, &json!(2))];
    let home = home(&tools, &json!({ "deny": ["shut"] }));
    let server = serve(&home).await;
    for client in [server.agent(), server.owner()] {
        let names = names(&client).await;
        assert!(names.contains(&"open".to_owned()) && !names.contains(&"shut".to_owned()));
        assert_eq!(client.call("shut", &json!({})).await.code(), "unknown_tool");
        assert_eq!(client.call("open", &json!({})).await.status, 200, "the control");
    }
}

fn personas(server: &Server) -> String {
    cli(server, &["persona", "list"]).good()
}

/// The original gives the default persona every module that is configured, at each start.
#[tokio::test]
async fn no_start_gives_a_persona_more() {
    let home = home(&[mock("extra", &json!({ "type": "object" }), &json!(1))], &json!({}));
    let server = serve(&home).await;
    cli(&server, &["persona", "create", "plain", "--modules", "builtin"]).good();
    cli(&server, &["persona", "default", "plain"]).good();
    let before = personas(&server);
    assert!(!names(&server.agent()).await.contains(&"extra".to_owned()));
    assert!(names(&server.owner()).await.contains(&"extra".to_owned()), "the control");
    assert!(server.stop().await.success());
    let server = serve(&home).await;
    assert_eq!(personas(&server), before);
    assert!(!names(&server.agent()).await.contains(&"extra".to_owned()));
}
