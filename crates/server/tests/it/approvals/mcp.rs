use std::time::Duration;

use gateway::ApprovalSettings;
use serde_json::{Value, json};

use super::{ApprovalServer, confirming_settings, empty_object, text};
use crate::support::client::{message, modern_message};

fn call(args: &Value) -> Value {
    json!({"name": "rm", "arguments": args})
}

async fn modern(
    bench: &ApprovalServer,
    mut params: Value,
    state: Option<&Value>,
    can: Value,
) -> Value {
    if let Some(state) = state {
        params["requestState"] = state.clone();
    }
    let mut message = modern_message("tools/call", params);
    message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = can;
    bench.agent.modern_message(&message).await.json()
}

#[tokio::test]
async fn a_stateless_client_polls_with_the_state_it_was_given() {
    let bench = ApprovalServer::new().await;
    let held = modern(&bench, call(&json!({"n": 1})), None, empty_object()).await;
    let result = &held["result"];
    assert_eq!(result["resultType"], "input_required", "{held}");
    assert_eq!(result.get("inputRequests"), None, "it said that it can answer nothing");
    let state = &result["requestState"];
    // Nobody decided: it is held once more, as often as it likes.
    for _ in 0..2 {
        let again = modern(&bench, call(&json!({"n": 1})), Some(state), empty_object()).await;
        assert_eq!(again["result"]["resultType"], "input_required");
    }
    assert_eq!(
        bench.owner.get("/v1/approvals").await.expect_ok()["approvals"].as_array().unwrap().len(),
        1
    );
    // Equal arguments in another notation match; other arguments, another key and a changed state
    // do not.
    let other = modern(&bench, call(&json!({"n": 2})), Some(state), empty_object()).await;
    assert_eq!(other["error"]["code"], -32_602);
    let broken = json!(format!("{}A", state.as_str().unwrap()));
    let bent = modern(&bench, call(&json!({"n": 1})), Some(&broken), empty_object()).await;
    assert_eq!(bent["error"]["code"], -32_602);
    let stranger = ApprovalServer {
        agent: bench.server.agent_client("bob", tool::PermissionLevel::User).await,
        ..bench
    };
    let taken = modern(&stranger, call(&json!({"n": 1})), Some(state), empty_object()).await;
    assert_eq!(taken["error"]["code"], -32_602);
    assert_eq!(stranger.ran.call_count(), 0);
}

#[tokio::test]
async fn a_stateless_client_gets_what_became_of_its_call() {
    type Case = (&'static str, Value, &'static str);
    let cases: [Case; 3] = [
        ("approve", json!({}), r#"{"n":1}"#),
        ("edit", json!({"arguments": {"n": 5}, "approve": true}), r#"{"n":5}"#),
        ("deny", json!({"reason": "no"}), "approval_denied: the call was denied by a person: no"),
    ];
    for (how, body, expected) in cases {
        let bench =
            ApprovalServer::with_settings(ApprovalSettings::default(), Duration::from_secs(30))
                .await;
        let held = modern(&bench, call(&json!({"n": 1})), None, empty_object()).await;
        let state = &held["result"]["requestState"];
        let id = bench.wait_for_pending().await;
        let again = modern(&bench, call(&json!({"n": 1})), Some(state), empty_object());
        let decide = bench.decide(&id, how, body);
        let (again, _) = tokio::join!(again, decide);
        assert_eq!(text(&again), expected, "{how}: {again}");
        assert_eq!(bench.ran.call_count(), usize::from(how != "deny"));
    }
}

#[tokio::test]
async fn what_a_client_answers_is_no_approval_unless_the_operator_says_so() {
    let form = json!({"elicitation": {"form": {}, "url": {}}});
    let yes = json!({"approval": {"action": "accept", "content": {"approve": true}}});
    let bench = ApprovalServer::new().await;
    let held = modern(&bench, call(&empty_object()), None, form.clone()).await;
    let asked = &held["result"]["inputRequests"]["approval"];
    let id = bench.wait_for_pending().await;
    assert_eq!(
        (&asked["method"], &asked["params"]["mode"]),
        (&json!("elicitation/create"), &json!("url"))
    );
    let url = asked["params"]["url"].as_str().unwrap();
    assert!(
        url.starts_with("http://127.0.0.1:") && url.ends_with(&format!("/approvals/{id}")),
        "{url}"
    );
    let mut answered = call(&empty_object());
    answered["inputResponses"] = yes.clone();
    let state = held["result"]["requestState"].clone();
    let again = modern(&bench, answered.clone(), Some(&state), form.clone()).await;
    assert_eq!(again["result"]["resultType"], "input_required", "{again}");
    assert_eq!(again["result"].get("inputRequests"), None, "nobody is asked twice");
    assert_eq!(bench.ran.call_count(), 0);
    // Where the operator names the key, it is.
    let bench = ApprovalServer::with_settings(confirming_settings(), Duration::from_secs(30)).await;
    for (word, ran) in [(yes, 1), (json!({"approval": {"action": "decline"}}), 1)] {
        let held = modern(&bench, call(&empty_object()), None, form.clone()).await;
        let asked = &held["result"]["inputRequests"]["approval"];
        assert_eq!(asked["params"]["mode"], "form");
        answered["inputResponses"] = word;
        let state = held["result"]["requestState"].clone();
        let again = modern(&bench, answered.clone(), Some(&state), form.clone()).await;
        assert_eq!(again["result"]["resultType"], "complete", "{again}");
        assert_eq!(bench.ran.call_count(), ran);
    }
    let all = bench.owner.get("/v1/approvals?state=all").await.expect_ok();
    let decided = &all["approvals"][1]["decided"];
    assert_eq!((&decided["own"], &decided["door"]), (&json!(true), &json!("mcp")));
}

#[tokio::test]
async fn an_older_client_waits_and_is_shown_the_page_where_it_can() {
    let bench =
        ApprovalServer::with_settings(ApprovalSettings::default(), Duration::from_secs(30)).await;
    let agent = bench.agent.open_session(json!({"elicitation": {"url": {}}})).await;
    let mut stream = agent.legacy_stream(&message("tools/call", call(&json!({"n": 4})))).await;
    let question = stream.next().await;
    assert_eq!(question["method"], "elicitation/create", "{question}");
    assert_eq!(question["params"]["mode"], "url");
    let id = question["params"]["elicitationId"].as_str().unwrap().to_owned();
    let accepted = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept",
        "content": {"approve": true}}});
    assert_eq!(agent.legacy_request(&accepted).await.status, 202);
    assert_eq!(
        bench.owner.get(&format!("/v1/approvals/{id}")).await.expect_ok()["state"],
        "pending"
    );
    assert_eq!(bench.ran.call_count(), 0, "its answer is no approval");
    bench.decide(&id, "approve", empty_object()).await;
    let answer = stream.next().await;
    assert_eq!(text(&answer), r#"{"n":4}"#, "{answer}");
    assert_eq!(bench.ran.call_count(), 1);
}

#[tokio::test]
async fn an_older_client_that_can_nothing_gets_the_id_and_calls_again() {
    let bench = ApprovalServer::new().await;
    let agent = bench.agent.open_session(empty_object()).await;
    let again = message("tools/call", call(&json!({"n": 6})));
    let ask = || agent.legacy_request(&again);
    let held = ask().await.json();
    let id = bench.wait_for_pending().await;
    assert!(text(&held).contains(&id) && text(&held).contains("waits for a person"), "{held}");
    assert_eq!(held["result"]["isError"], false);
    // The same call again is the pending call, before and after the decision.
    assert!(text(&ask().await.json()).contains(&id));
    bench.decide(&id, "approve", empty_object()).await;
    assert_eq!(text(&ask().await.json()), r#"{"n":6}"#);
    assert_eq!(bench.ran.call_count(), 1);
    // With its answer it is over: the next is another.
    let next = ask().await.json();
    assert!(text(&next).contains("waits") && !text(&next).contains(&id), "{next}");
    assert_eq!(bench.ran.call_count(), 1);
}

#[tokio::test]
async fn a_call_through_the_search_tools_waits_and_ends_as_a_call_of_its_tool() {
    let bench =
        ApprovalServer::with_settings(ApprovalSettings::default(), Duration::from_secs(30)).await;
    let bench = ApprovalServer { agent: bench.agent.with_query("?mode=search"), ..bench };
    let asked = json!({"name": "search_tools", "arguments": {"queries": ["rm"]}});
    let found = modern(&bench, asked, None, empty_object()).await;
    let found = found["result"]["structuredContent"]["results"][0]["name"].clone();
    let asked = json!({"name": "describe_tools", "arguments": {"names": [found]}});
    let described = modern(&bench, asked, None, empty_object()).await;
    let described = &described["result"]["structuredContent"]["tools"][0];
    assert_eq!(described["inputSchema"]["properties"]["n"]["type"], "integer", "{described}");
    let through = |name: &Value, n: u64| {
        let inner = json!({"name": name, "arguments": {"n": n}});
        json!({"name": "call_tool", "arguments": inner})
    };
    let held = modern(&bench, through(&found, 1), None, empty_object()).await;
    assert_eq!(held["result"]["resultType"], "input_required", "{held}");
    let state = held["result"]["requestState"].clone();
    // The person sees the tool that will run, not the one through which it is called.
    let waiting = bench.owner.get("/v1/approvals").await.expect_ok()["approvals"][0].clone();
    assert_eq!(waiting["tool"], found, "{waiting}");
    // Control: the state is of this call alone.
    let other = modern(&bench, through(&found, 2), Some(&state), empty_object()).await;
    assert_eq!(other["error"]["code"], -32_602, "{other}");
    bench.decide(waiting["id"].as_str().unwrap(), "approve", empty_object()).await;
    let ended = modern(&bench, through(&found, 1), Some(&state), empty_object()).await;
    assert_eq!(ended["result"]["structuredContent"], json!({"n": 1}), "{ended}");
    assert_eq!(bench.executed(), [r#"{"n":1}"#]);
    let intents = bench.server.recorded_intents();
    assert!(intents.iter().all(|it| it.tool_key.name.as_str() == found.as_str().unwrap()));
}
