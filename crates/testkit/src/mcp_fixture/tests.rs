use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use super::{FixtureEra, FixtureOptions, RunningFixture, start_fixture};
use crate::http_client;

const MODERN: &str = "2026-07-28";

struct Said {
    status: u16,
    session: Option<String>,
    /// The messages, in their order.
    messages: Vec<Value>,
}

impl Said {
    fn last(&self) -> &Value {
        self.messages.last().unwrap()
    }
}

async fn fixture(era: FixtureEra) -> RunningFixture {
    start_fixture(FixtureOptions { era, page_size: 0 }).await.unwrap()
}

async fn post(fixture: &RunningFixture, headers: &[(&str, &str)], message: &Value) -> Said {
    let (authority, path) = http_client::split_url(&fixture.url);
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header("host", authority)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(message.to_string().into())).unwrap();
    let answer = http_client::send_request(authority, request).await.unwrap();
    let status = answer.status().as_u16();
    let session = answer.headers().get("mcp-session-id");
    let session = session.map(|id| id.to_str().unwrap().to_owned());
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let body = String::from_utf8(body.to_vec()).unwrap();
    let events: Vec<&str> = body.lines().filter_map(|line| line.strip_prefix("data:")).collect();
    let texts = if events.is_empty() { vec![body.as_str()] } else { events };
    let messages = texts.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
    Said { status, session, messages }
}

fn message(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params })
}

async fn modern(fixture: &RunningFixture, method: &str, mut params: Value) -> Said {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
    });
    let name = params["name"].as_str().unwrap_or("none").to_owned();
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", method), ("mcp-name", &name)];
    post(fixture, &headers, &message(method, &params)).await
}

async fn initialize(fixture: &RunningFixture, revision: &str, capabilities: Value) -> Said {
    let params = json!({ "protocolVersion": revision, "capabilities": capabilities,
        "clientInfo": { "name": "test", "version": "1" } });
    post(fixture, &[], &message("initialize", &params)).await
}

#[tokio::test]
async fn each_era_is_refused_where_it_is_not_spoken() {
    let (old, new) = (fixture(FixtureEra::Legacy).await, fixture(FixtureEra::Modern).await);
    let refused = modern(&old, "server/discover", json!({})).await;
    assert_eq!((refused.status, &refused.last()["error"]["code"]), (400, &json!(-32000)));
    let refused = initialize(&new, "2025-11-25", json!({})).await;
    assert_eq!((refused.status, &refused.last()["error"]["code"]), (400, &json!(-32022)));
    assert_eq!(refused.last()["error"]["data"]["supported"], json!([MODERN]));
    let both = fixture(FixtureEra::Both).await;
    assert_eq!(modern(&both, "server/discover", json!({})).await.status, 200);
    assert_eq!(initialize(&both, "2025-11-25", json!({})).await.status, 200);
}

#[tokio::test]
async fn every_older_revision_is_agreed_on() {
    let fixture = fixture(FixtureEra::Both).await;
    for revision in super::legacy_era::REVISIONS {
        let said = initialize(&fixture, revision, json!({})).await;
        assert_eq!(said.last()["result"]["protocolVersion"], *revision);
        assert!(said.session.is_some());
    }
    let said = initialize(&fixture, "1999-01-01", json!({})).await;
    assert_eq!(said.last()["result"]["protocolVersion"], "2025-11-25");
}

#[tokio::test]
async fn the_modern_era_asks_in_its_result_and_takes_only_its_own_state_back() {
    let fixture = fixture(FixtureEra::Both).await;
    let name = "test_input_required_result_multi_round";
    let first = modern(&fixture, "tools/call", json!({ "name": name, "arguments": {} })).await;
    let first = &first.last()["result"];
    assert_eq!(first["resultType"], "input_required");
    let answer = json!({ "action": "accept", "content": { "name": "Ada" } });
    let again = |state: Value| {
        json!({ "name": name, "arguments": {}, "requestState": state,
            "inputResponses": { "step1": answer } })
    };
    let second = modern(&fixture, "tools/call", again(first["requestState"].clone())).await;
    assert!(second.last()["result"]["inputRequests"]["step2"].is_object());
    let state = first["requestState"].as_str().unwrap().replace("\"round\":0", "\"round\":1");
    let forged = modern(&fixture, "tools/call", again(json!(state))).await;
    assert_eq!(forged.last()["error"]["code"], -32602);
}

#[tokio::test]
async fn the_older_era_says_what_its_client_cannot_be_asked() {
    let fixture = fixture(FixtureEra::Both).await;
    let session = initialize(&fixture, "2025-06-18", json!({})).await.session.unwrap();
    let params = json!({ "name": "test_elicitation", "arguments": { "message": "Who?" } });
    let headers = [("mcp-session-id", session.as_str())];
    let said = post(&fixture, &headers, &message("tools/call", &params)).await;
    assert_eq!(said.last()["result"]["isError"], true);
    let gone = post(&fixture, &[("mcp-session-id", "none")], &message("ping", &json!({}))).await;
    assert_eq!(gone.status, 404);
}

#[tokio::test]
async fn before_2026_07_28_the_caller_says_what_is_a_task() {
    let fixture = fixture(FixtureEra::Legacy).await;
    let session = initialize(&fixture, "2025-11-25", json!({})).await.session.unwrap();
    let headers = [("mcp-session-id", session.as_str())];
    let ask = async |method: &str, params: Value| {
        post(&fixture, &headers, &message(method, &params)).await.last().clone()
    };
    let plain = ask("tools/call", json!({ "name": "failing_job" })).await;
    assert_eq!(plain["error"]["code"], -32601);
    let wrong = ask("tools/call", json!({ "name": "greet", "task": {} })).await;
    assert_eq!(wrong["result"]["content"][0]["text"], "Hello, World!");
    let begun = ask("tools/call", json!({ "name": "failing_job", "task": {} })).await;
    let task = &begun["result"]["task"];
    assert_eq!((&task["status"], &task["pollInterval"]), (&json!("working"), &json!(200)));
    let id = json!({ "taskId": task["taskId"] });
    assert_eq!(ask("tasks/get", id.clone()).await["result"]["taskId"], task["taskId"]);
    let ended = ask("tasks/result", id.clone()).await;
    assert_eq!(ended["result"]["isError"], true);
    assert_eq!(ended["result"]["_meta"]["io.modelcontextprotocol/related-task"], id);
    assert_eq!(ask("tasks/cancel", id).await["error"]["code"], -32602);
    assert_eq!(ask("tasks/get", json!({ "taskId": "x" })).await["error"]["code"], -32602);
}

#[tokio::test]
async fn pages_hold_every_tool_once() {
    let fixture =
        start_fixture(FixtureOptions { era: FixtureEra::Both, page_size: 7 }).await.unwrap();
    let (mut names, mut params) = (Vec::new(), json!({}));
    loop {
        let page = modern(&fixture, "tools/list", params).await;
        let page = &page.last()["result"];
        let tools = page["tools"].as_array().unwrap();
        assert!(tools.len() <= 7);
        names.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        match &page["nextCursor"] {
            Value::Null => break,
            cursor => params = json!({ "cursor": cursor }),
        }
    }
    let all = names.len();
    names.sort();
    names.dedup();
    assert!(all == names.len() && all > 30, "{all} names, {} different", names.len());
}

#[tokio::test]
async fn a_caller_that_goes_away_cancels_its_call() {
    let fixture = fixture(FixtureEra::Both).await;
    let params = json!({ "name": "test_wait", "arguments": { "seconds": 50 } });
    let call = modern(&fixture, "tools/call", params);
    let left = tokio::time::timeout(Duration::from_millis(300), call).await;
    assert!(left.is_err(), "it waits");
    let count = async || {
        let params = json!({ "name": "test_cancelled_calls", "arguments": {} });
        let said = modern(&fixture, "tools/call", params).await;
        said.last()["result"]["structuredContent"]["cancelled"].as_u64().unwrap()
    };
    let seen = tokio::time::timeout(Duration::from_secs(30), async {
        while count().await == 0 {
            tokio::task::yield_now().await;
        }
    });
    seen.await.expect("the call is cancelled");
}

#[tokio::test]
async fn what_comes_from_elsewhere_is_refused() {
    let fixture = fixture(FixtureEra::Both).await;
    let ping = message("ping", &json!({}));
    let foreign = post(&fixture, &[("origin", "http://evil.example")], &ping).await;
    assert_eq!(foreign.status, 403);
    let own = post(&fixture, &[("origin", "http://localhost:1")], &ping).await;
    assert_eq!(own.status, 400, "no session, but no foreigner");
}

/// Opens a stream and reads it until it says `wanted`; `act` runs once something came.
async fn hears(
    fixture: &RunningFixture,
    request: Request<Full<Bytes>>,
    wanted: &str,
    act: impl AsyncFn(),
) {
    let (authority, _) = http_client::split_url(&fixture.url);
    let mut body = http_client::send_request(authority, request).await.unwrap().into_body();
    let (mut heard, mut acted) = (String::new(), false);
    let reading = tokio::time::timeout(Duration::from_secs(30), async {
        while !heard.contains(wanted) {
            let frame = body.frame().await.expect("the stream goes on").unwrap();
            heard.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
            if !acted {
                acted = true;
                act().await;
            }
        }
    });
    reading.await.unwrap_or_else(|_| panic!("no `{wanted}`: {heard}"));
}

#[tokio::test]
async fn a_watched_resource_tells_in_both_eras() {
    let fixture = fixture(FixtureEra::Both).await;
    let uri = "test://watched-resource";
    let change = async || {
        let params = json!({ "name": "test_update_watched_resource", "arguments": {} });
        modern(&fixture, "tools/call", params).await;
    };
    let (authority, path) = http_client::split_url(&fixture.url);
    let request = || {
        let accept = "application/json, text/event-stream";
        Request::builder().uri(path).header("host", authority).header("accept", accept)
    };

    let params = json!({ "notifications": { "resourceSubscriptions": [uri] }, "_meta": {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {} } });
    let listen = message("subscriptions/listen", &params).to_string();
    let listen = request()
        .method(Method::POST)
        .header("content-type", "application/json")
        .header("mcp-protocol-version", MODERN)
        .header("mcp-method", "subscriptions/listen")
        .body(Full::new(listen.into()));
    hears(&fixture, listen.unwrap(), "notifications/resources/updated", &change).await;

    let session = initialize(&fixture, "2025-06-18", json!({})).await.session.unwrap();
    let subscribe = message("resources/subscribe", &json!({ "uri": uri }));
    let said = post(&fixture, &[("mcp-session-id", &session)], &subscribe).await;
    assert_eq!(said.last()["result"], json!({}));
    let stream = request().header("mcp-session-id", session).body(Full::default());
    hears(&fixture, stream.unwrap(), "notifications/resources/updated", &change).await;
}
