//! Tests of `internal` tools of a tool file, which show what each caller may see.

use serde_json::{Value, json};

use crate::real_support::{expect_ok, wait_for_sources};
use crate::support::installation::Installation;
use crate::support::server_process::start_server;

const FILE: &str = r"
version: 2
tools:
  - name: what_is_there
    description: The tools you may call.
    parameters: {type: object, properties: {source: {type: string}, limit: {type: integer}}}
    implementation: {type: internal, handler: catalog.list}
  - name: how_are_sources
    description: How the sources stand.
    parameters: {type: object}
    implementation: {type: internal, handler: source.status}
  - name: what_happened
    description: The newest records.
    required_permission: guest
    parameters: {type: object, properties: {limit: {type: integer}}}
    implementation: {type: internal, handler: record.recent}
  - name: for_owners
    description: Not for everybody.
    required_permission: owner
    parameters: {type: object}
    implementation: {type: mock, mock_response: 1}
  - name: unknown
    description: Nobody can run this.
    parameters: {type: object}
    implementation: {type: internal, handler: rag_query}
  - name: later
    description: A plugin's.
    parameters: {path: {type: string, required: true}}
    implementation: {type: python, module: a, function: b}
";

fn listed(answer: &Value) -> Vec<&str> {
    let tools = answer["result"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

/// Each faulty tool is an error in the log. The control: of a good one there is no line.
fn is_logged_by_its_name(said: &str) {
    let line =
        said.lines().find(|line| line.contains("rag_query")).unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains("ERROR") && line.contains("tool `unknown`"), "{line}");
    assert!(!said.contains("what_is_there"), "{said}");
}

#[tokio::test]
async fn internal_tools_tell_what_their_caller_may_see() {
    let sources = json!([{ "name": "own", "tools": "./tools.yaml" }]);
    let home = Installation::new(&json!({ "version": 1, "sources": sources }).to_string());
    home.write("tools.yaml", FILE);
    let server = start_server(&home).await;
    let (owner, agent) = (server.owner(), server.agent());
    wait_for_sources(&owner).await;

    // Handlers that are not there are refused when the file is read, and the others stay.
    let source = owner.find_source("own").await.unwrap();
    assert_eq!(source["tools"], 4, "{source}");
    is_logged_by_its_name(&server.log_text());
    let problems = source["problems"].to_string();
    assert!(problems.contains("Internal handler 'rag_query' not found"), "{problems}");
    assert!(
        problems.contains("use one of catalog.list, record.recent, source.status"),
        "{problems}"
    );
    assert!(problems.contains("the module `a` does not exist in the folder"), "{problems}");

    let all = expect_ok(owner.call("what_is_there", &json!({ "source": "own" })).await);
    let own = ["what_is_there", "how_are_sources", "what_happened", "for_owners"];
    assert_eq!(listed(&all), own);
    let seen = expect_ok(agent.call("what_is_there", &json!({ "source": "own" })).await);
    assert_eq!(listed(&seen), own[..3], "a tool that the agent may not call is shown to it");
    let first = expect_ok(owner.call("what_is_there", &json!({ "limit": 2 })).await);
    assert_eq!(listed(&first).len(), 2);
    assert!(first["result"]["count"].as_u64().unwrap() > 4);

    // With the request's restrictions at every interface: no caller sees tools that it could not
    // call.
    let names =
        |listed: &[&str]| -> Vec<String> { listed.iter().map(ToString::to_string).collect() };
    let what = |more: Value| {
        let mut body = json!({ "tool": "what_is_there", "arguments": { "limit": 1_000 } });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let mut told = Vec::new();
    for more in [json!({}), json!({ "read_only": true }), json!({ "task_type": "math" })] {
        let all = expect_ok(owner.post("/v1/calls", &what(more)).await);
        told.push(names(&listed(&all)));
    }
    let has = |at: usize, name: &str| told[at].iter().any(|told| told == name);
    assert!(["for_owners", "http_get", "write_file"].iter().all(|it| has(0, it)), "{told:?}");
    assert!(!has(1, "write_file") && has(1, "http_get"), "effects are not told, {told:?}");
    assert!(has(2, "for_owners") && !has(2, "http_get"), "{told:?}");
    let lowered = json!({ "tool_name": "what_is_there", "user_permission": "user" });
    let lowered = expect_ok(owner.post("/execute", &lowered).await);
    assert!(!lowered.to_string().contains("for_owners"), "{lowered}");

    let standing = expect_ok(agent.call("how_are_sources", &json!({})).await);
    let sources = standing["result"]["sources"].as_array().unwrap();
    let own = sources.iter().find(|source| source["name"] == "own").unwrap();
    assert_eq!((own["state"].as_str(), own["tools"].as_u64()), (Some("ok"), Some(3)));
    assert!(own.get("problems").is_none(), "{own}");
    let standing = expect_ok(owner.call("how_are_sources", &json!({})).await);
    assert!(standing.to_string().contains("rag_query"), "{standing}");

    // Reading the record requires the right, whatever the tool's level.
    let records = expect_ok(owner.call("what_happened", &json!({ "limit": 3 })).await);
    assert_eq!(records["result"]["records"].as_array().unwrap().len(), 3);
    let refused = agent.call("what_happened", &json!({})).await;
    assert!(refused.body.to_string().contains("records:read"), "{:?}", refused.body);
    server.stop().await;
}
