//! Tests of progress notifications for clients that request them.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tool::PermissionLevel;

use crate::support::client::{message, modern_message};
use crate::support::executors::ReportingExecutor;
use crate::support::{Client, FixtureServer, Reply, tools};

type ProgressReport = (f64, Option<f64>, Option<&'static str>);

async fn server_of(reports: Vec<ProgressReport>) -> (FixtureServer, Client) {
    let next = Arc::new(Semaphore::new(1_000));
    let reporting = Arc::new(ReportingExecutor { reports, next });
    let server =
        FixtureServer::with_offers(vec![tools::tool_offer(tools::test_tool("reports"), reporting)])
            .await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    (server, ann)
}

async fn ask(client: &Client, modern: bool, token: Option<Value>) -> Reply {
    let mut params = json!({"name": "reports"});
    if let Some(token) = token {
        params["_meta"]["progressToken"] = token;
    }
    if modern {
        client.modern_message(&modern_message("tools/call", params)).await
    } else {
        client.legacy_request(&message("tools/call", params)).await
    }
}

#[tokio::test]
async fn who_asks_for_progress_is_told() {
    let told =
        vec![(0.0, Some(100.0), None), (50.0, Some(100.0), Some("half")), (100.0, None, None)];
    let (_server, ann) = server_of(told).await;
    for (modern, token) in [(false, json!("t")), (true, json!(7))] {
        let reply = ask(&ann, modern, Some(token.clone())).await;
        assert_eq!(reply.header("content-type"), Some("text/event-stream"));
        let mut messages = reply.messages();
        let result = messages.pop().unwrap();
        assert_eq!(result["result"]["content"][0]["text"], "done");
        assert_eq!(result["id"], 1);
        let progress = |params: Value| json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        let expected = [
            progress(json!({"progressToken": token, "progress": 0.0, "total": 100.0})),
            progress(
                json!({"progressToken": token, "progress": 50.0, "total": 100.0, "message": "half"}),
            ),
            progress(json!({"progressToken": token, "progress": 100.0})),
        ];
        assert_eq!(messages, expected);
    }
}

#[tokio::test]
async fn who_does_not_ask_gets_one_answer() {
    let (_server, ann) = server_of(vec![(1.0, None, None)]).await;
    for modern in [false, true] {
        let reply = ask(&ann, modern, None).await;
        assert_eq!(reply.header("content-type"), Some("application/json"));
        assert_eq!(reply.expect_ok()["result"]["content"][0]["text"], "done");
    }
}

#[tokio::test]
async fn progress_grows_is_bounded_and_is_a_number() {
    let mut told = vec![(1.0, None, None), (1.0, None, None), (0.5, None, None)];
    told.extend([(f64::NAN, None, None), (f64::INFINITY, None, None), (2.0, Some(f64::NAN), None)]);
    let (_server, ann) = server_of(told).await;
    let reply = ask(&ann, false, Some(json!(1))).await;
    let sent: Vec<_> = reply.messages().iter().map(|m| m["params"].clone()).collect();
    let progress = |progress: f64| json!({"progressToken": 1, "progress": progress});
    assert_eq!(sent, [progress(1.0), progress(2.0), Value::Null]);
}

/// A tool that reports faster than anything is sent is not held up, and what is dropped is progress.
#[tokio::test]
async fn a_flood_is_dropped_and_the_answer_comes() {
    let flood = (1..1_000).map(|i| (f64::from(i), None, None)).collect();
    let (server, ann) = server_of(flood).await;
    let messages = ask(&ann, false, Some(json!(1))).await.messages();
    assert!((2..900).contains(&messages.len()), "{}", messages.len());
    assert_eq!(messages.last().unwrap()["result"]["content"][0]["text"], "done");
    assert_eq!(server.recorded_ends().len(), 1);
}
