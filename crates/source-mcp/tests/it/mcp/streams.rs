//! Tests of interrupted streams and of connection reuse.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use rmcp::transport::StreamableHttpServerConfig;
use serde_json::json;
use source_mcp::{EraSelection, McpOptions};
use tokio::time::timeout;
use tool::executor::DispatchState;
use tool::{ErrorCode, Source as _};

use super::peer::{names, text};
use super::runs::{Client, Setup, Watch, done, runner, said};
use super::site::{Echo, Site, cut_reply, reply, stream};

const SOON: Duration = Duration::from_secs(20);

fn event(id: &str, text: &str) -> String {
    format!("id: {id}\ndata: {text}\n\n")
}

/// Sends half of an answer's stream, and the rest to a resume request.
#[tokio::test]
async fn a_stream_that_breaks_off_is_resumed_where_its_events_have_ids() {
    let gets = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&gets);
    let site = Site::script(move |asked| {
        let gets = Arc::clone(&count);
        async move {
            let step = |n| {
                let params = json!({"progressToken": 3, "progress": n});
                json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
                    .to_string()
            };
            match (asked.method(), asked.header("last-event-id")) {
                ("tools/call", None) => {
                    assert_eq!(
                        asked.message["params"]["_meta"]["progressToken"],
                        asked.message["id"]
                    );
                    let id = asked.message["id"].to_string();
                    let step = step(1).replace(":3", &format!(":{id}"));
                    stream(&[
                        format!("id: {id}.0\nretry: 10\ndata:\n\n"),
                        event(&format!("{id}.1"), &step),
                    ])
                }
                ("", Some(last)) => {
                    gets.fetch_add(1, Ordering::SeqCst);
                    let (id, at) = last.split_once('.').unwrap();
                    let id: i64 = id.parse().unwrap();
                    if at == "1" {
                        return stream(&[event(
                            &format!("{id}.2"),
                            &step(2).replace(":3", &format!(":{id}")),
                        )]);
                    }
                    let answer = json!({"jsonrpc": "2.0", "id": id, "result": text("whole")});
                    stream(&[event(&format!("{id}.3"), &answer.to_string())])
                }
                _ => asked.usual(),
            }
        }
    });
    let source = site.source(McpOptions::default());
    let tool = runner(&source, "web.tool").await;
    let watch = Watch::default();
    assert_eq!(said(&timeout(SOON, tool.watched("{}", &watch)).await.unwrap().unwrap()), "whole");
    assert_eq!(gets.load(Ordering::SeqCst), 2);
    assert_eq!(watch.progress.lock().unwrap().len(), 2);
    timeout(SOON, source.shut_down()).await.unwrap();
}

#[tokio::test]
async fn a_connection_cut_during_a_call_is_lost_and_not_failed() {
    let site = Site::script(|asked| async move {
        match (asked.method(), asked.message["params"]["arguments"]["head"].as_bool()) {
            ("tools/call", Some(false)) => panic!("the connection goes with this task"),
            ("tools/call", _) => cut_reply("application/json", "{"),
            _ => asked.usual(),
        }
    });
    let source = site.source(McpOptions::default());
    let tool = runner(&source, "web.tool").await;
    for head in [true, false] {
        let error = timeout(SOON, tool.call(&format!("{{\"head\":{head}}}"))).await.unwrap();
        let error = error.unwrap_err();
        assert_eq!(
            (error.code, error.dispatch),
            (ErrorCode::UpstreamLost, DispatchState::MaybeSent),
            "{head}: {error}"
        );
    }
    timeout(SOON, source.shut_down()).await.unwrap();
}

/// A request arrives on the call's own stream; its answer is sent as a separate request.
#[tokio::test]
async fn questions_over_http_are_answered_beside_their_stream() {
    let (told, heard) = tokio::sync::watch::channel(None::<serde_json::Value>);
    let told = Arc::new(told);
    let site = Site::script(move |asked| {
        let (told, mut heard) = (Arc::clone(&told), heard.clone());
        async move {
            match asked.method() {
                "tools/call" => {
                    let id = asked.message["id"].clone();
                    let question = json!({"jsonrpc": "2.0", "id": "q", "method": "roots/list"});
                    let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}});
                    let first = format!("data: {log}\n\ndata: {question}\n\n");
                    let rest = async move {
                        let answer =
                            heard.wait_for(Option::is_some).await.unwrap().clone().unwrap();
                        let result = json!({"jsonrpc": "2.0", "id": id, "result": text(&answer["result"].to_string())});
                        format!("data: {result}\n\n")
                    };
                    let first = futures_util::stream::once(async { first });
                    let all =
                        first.chain(futures_util::stream::once(rest)).map(Ok::<_, std::io::Error>);
                    let body = axum::body::Body::from_stream(all);
                    axum::response::Response::builder()
                        .header("content-type", "text/event-stream")
                        .body(body)
                        .unwrap()
                }
                "" if asked.message["id"] == "q" => {
                    told.send_replace(Some(asked.message));
                    reply(202, &[], "")
                }
                _ => asked.usual(),
            }
        }
    });
    let source = site.source(McpOptions::default());
    let tool = runner(&source, "web.tool").await;
    let (client, watch) = (Client::default(), Watch::default());
    let setup = Setup { ask: Some(&client), watch: Some(&watch), ..Setup::default() };
    let step = timeout(SOON, tool.step("{}", setup)).await.unwrap().unwrap();
    assert_eq!(said(&done(step)), r#"{"roots":[{"uri":"file:///home"}]}"#);
    assert_eq!(client.asked.lock().unwrap()[0].0, "roots/list");
    assert_eq!(watch.notices.lock().unwrap()[0].1, json!({"level": "info", "data": 1}));
    timeout(SOON, source.shut_down()).await.unwrap();
}

/// rmcp's server answers each call with its own stream, and ends it after the answer.
#[tokio::test]
async fn sixteen_callers_need_no_more_than_sixteen_connections() {
    const CALLERS: usize = 16;
    let calls = if std::env::var_os("TOOLKEEP_DEEP").is_some() { 10_000 } else { 2_000 };
    let site = Echo::default().site(StreamableHttpServerConfig::default());
    let source =
        site.source(McpOptions { era_selection: EraSelection::Handshake, ..McpOptions::default() });
    let echo = runner(&source, "web.echo").await;
    assert_eq!(names(&source).await.len(), 3);
    let before = site.connections();
    let callers = (0..CALLERS).map(|caller| {
        let echo = echo.clone();
        async move {
            for n in 0..calls / CALLERS {
                let args = format!("{{\"n\":{n},\"caller\":{caller}}}");
                assert_eq!(said(&echo.call(&args).await.unwrap()), args);
            }
        }
    });
    join_all(callers).await;
    let opened = site.connections() - before;
    assert!(opened <= CALLERS, "{opened} connections for {calls} calls");
    timeout(SOON, source.shut_down()).await.unwrap();
}
