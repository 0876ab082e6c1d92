use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::routing::post;
use tokio::net::TcpListener;

use super::{bare_proxy, echo_server, static_server};
use crate::load_generator::{self, SliceEnd, WARMUP_CALLS};
use crate::timed_request::{ECHO_TEXT, ExpectedBody, TimedRequest};
use crate::toolkeep_process::tool_names;

async fn bind_port() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[tokio::test]
async fn a_call_goes_through_the_proxy_to_the_server() {
    let (behind, upstream_at) = bind_port().await;
    let (between, pass_at) = bind_port().await;
    tokio::spawn(echo_server::serve_tools(behind, 3));
    tokio::spawn(bare_proxy::serve_proxy(between, upstream_at));
    for at in [upstream_at, pass_at] {
        let list = TimedRequest::tool_list(at).send_once().await.unwrap().parse_json().unwrap();
        assert_eq!(tool_names(&list), ["echo", "echo_unknown", "echo_2"]);
        let call = TimedRequest::tool_call(at, "echo_unknown");
        let answer = call.send_once().await.unwrap();
        assert!(call.is_expected(&answer), "{}", answer.body_start());
        assert_eq!(answer.parse_json().unwrap()["result"]["content"][0]["text"], ECHO_TEXT);
    }
    let unknown = TimedRequest::tool_call(pass_at, "no_such_tool");
    assert!(
        !unknown.is_expected(&unknown.send_once().await.unwrap()),
        "what is refused behind is no answer"
    );
}

#[tokio::test]
async fn held_bytes_come_back_as_they_are() {
    let file = std::env::temp_dir().join(format!("bench-held-{}", std::process::id()));
    std::fs::write(&file, "held").unwrap();
    let (listener, at) = bind_port().await;
    let path = file.to_string_lossy().into_owned();
    tokio::spawn(async move { static_server::serve_bytes(listener, &path).await });
    let message = TimedRequest { expect: ExpectedBody::Length(4), ..TimedRequest::tool_list(at) };
    assert!(message.is_expected(&message.send_once().await.unwrap()));
    std::fs::remove_file(file).unwrap();
}

/// Counts wrong answers of a flaky server; a server that fails immediately stops the run.
#[tokio::test]
async fn wrong_answers_are_counted() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let flaky = || async {
        let asked = ASKED.fetch_add(1, Ordering::Relaxed);
        if asked > WARMUP_CALLS && asked.is_multiple_of(10) { "wrong" } else { ECHO_TEXT }
    };
    let (listener, at) = bind_port().await;
    let router = Router::new().route("/mcp", post(flaky));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let message = TimedRequest::tool_call(at, "echo");
    let slice = load_generator::run_slice(&message, 1, SliceEnd::Calls(100)).await.unwrap();
    assert_eq!((slice.calls, slice.failures), (100, 9));
    let other = TimedRequest { expect: ExpectedBody::Contains("never said".to_owned()), ..message };
    let error = load_generator::run_slice(&other, 2, SliceEnd::Calls(1)).await.unwrap_err();
    assert!(error.contains("200 OK"), "{error}");
}
