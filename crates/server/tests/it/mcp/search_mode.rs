//! Tests of `/mcp?mode=search` in both eras: three tools find, describe and call all others.

use serde_json::{Value, json};
use tool::PermissionLevel;

use crate::support::client::message;
use crate::support::{Client, FixtureServer};

async fn legacy(client: &Client, method: &str, params: Value) -> Value {
    client.legacy_request(&message(method, params)).await.expect_ok()["result"].clone()
}

async fn modern(client: &Client, method: &str, params: Value) -> Value {
    client.modern_request(method, params).await.expect_ok()["result"].clone()
}

fn call(name: &str, arguments: &Value) -> Value {
    json!({"name": name, "arguments": arguments})
}

#[tokio::test]
async fn a_model_searches_describes_and_calls_in_both_eras() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await.with_query("?mode=search");
    for is_modern in [false, true] {
        let send = async |method: &str, params: Value| {
            if is_modern {
                modern(&ann, method, params).await
            } else {
                legacy(&ann, method, params).await
            }
        };
        let listed = send("tools/list", json!({})).await;
        let names: Vec<_> =
            listed["tools"].as_array().unwrap().iter().map(|it| it["name"].clone()).collect();
        assert_eq!(names, ["search_tools", "describe_tools", "call_tool"]);
        let found = send(
            "tools/call",
            call("search_tools", &json!({"queries": ["append notes"], "limit": 2})),
        )
        .await;
        let results = &found["structuredContent"]["results"];
        assert_eq!(results[0]["name"], "notes.append");
        let text: Value =
            serde_json::from_str(found["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, found["structuredContent"]);
        let names = json!({"names": ["notes.append", "needs.owner", "nothing"]});
        let described = send("tools/call", call("describe_tools", &names)).await;
        let described = &described["structuredContent"];
        assert_eq!(described["tools"][0]["inputSchema"], results[0]["definition"]["inputSchema"]);
        assert_eq!(described["unknown"], json!(["needs.owner", "nothing"]), "hidden as unknown");
        let inner = json!({"name": "notes.append", "arguments": {"n": 5}});
        let called = send("tools/call", call("call_tool", &inner)).await;
        assert_eq!(called["structuredContent"], json!({"n": 5}), "{called}");
    }
    // The record has the real tool, and the search none.
    let recorded = server.recorded_intents();
    assert_eq!(recorded.len(), 2);
    assert!(recorded.iter().all(|intent| intent.tool_key.name.as_str() == "notes.append"));
}

#[tokio::test]
async fn the_pipeline_decides_on_the_tool_that_is_called() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let searching = ann.with_query("?mode=search");
    for (tool, arguments) in
        [("notes.append", json!({"n": 12})), ("dangerous", json!({})), ("fails", json!({}))]
    {
        let inner = json!({"name": tool, "arguments": arguments});
        let through = legacy(&searching, "tools/call", call("call_tool", &inner)).await;
        let direct = legacy(&ann, "tools/call", call(tool, &arguments)).await;
        assert_eq!(through, direct, "{tool}");
    }
    let inner = json!({"name": "needs.owner", "arguments": {}});
    let hidden = searching
        .legacy_request(&message("tools/call", call("call_tool", &inner)))
        .await
        .expect_ok();
    assert_eq!(hidden["error"]["code"], -32_602);
}

#[tokio::test]
async fn wrong_arguments_are_told_to_the_model_and_wrong_modes_to_the_client() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let searching = ann.with_query("?mode=search");
    for (name, arguments, told) in [
        ("search_tools", json!({"queries": []}), "`queries` is missing or empty"),
        ("search_tools", json!({"query": "x"}), "unknown field `query`"),
        ("describe_tools", json!({"names": []}), "1 to 50 names"),
        ("call_tool", json!({"arguments": {}}), "`name` must be a string"),
    ] {
        let result = legacy(&searching, "tools/call", call(name, &arguments)).await;
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(result["isError"] == true && text.contains(told), "{text}");
        assert!(text.starts_with("invalid_arguments: "), "{text}");
    }
    let list = message("tools/list", json!({}));
    let wrong = ann.with_query("?mode=find").legacy_request(&list).await;
    assert_eq!(wrong.error().2, "unknown mode `find`; use list, deferred, search or auto");
    // Control: the other mode lists the caller's tools.
    let listed = legacy(&ann.with_query("?mode=list"), "tools/list", json!({})).await;
    assert!(listed["tools"].as_array().unwrap().len() > 3);
}
