use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::routing::post;
use tokio::net::TcpListener;

use super::{bytes, pass, upstream};
use crate::load::{self, Until, WARM};
use crate::message::{Expect, Message, TEXT};
use crate::toolkeep::names;

async fn port() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[tokio::test]
async fn a_call_goes_through_the_proxy_to_the_server() {
    let (behind, upstream_at) = port().await;
    let (between, pass_at) = port().await;
    tokio::spawn(upstream::run(behind, 3));
    tokio::spawn(pass::run(between, upstream_at));
    for at in [upstream_at, pass_at] {
        let list = Message::list(at).once().await.unwrap().json().unwrap();
        assert_eq!(names(&list), ["echo", "echo_unknown", "echo_2"]);
        let call = Message::call(at, "echo_unknown");
        let answer = call.once().await.unwrap();
        assert!(call.fits(&answer), "{}", answer.start());
        assert_eq!(answer.json().unwrap()["result"]["content"][0]["text"], TEXT);
    }
    let unknown = Message::call(pass_at, "no_such_tool");
    assert!(!unknown.fits(&unknown.once().await.unwrap()), "what is refused behind is no answer");
}

#[tokio::test]
async fn held_bytes_come_back_as_they_are() {
    let file = std::env::temp_dir().join(format!("bench-held-{}", std::process::id()));
    std::fs::write(&file, "held").unwrap();
    let (listener, at) = port().await;
    let path = file.to_string_lossy().into_owned();
    tokio::spawn(async move { bytes::run(listener, &path).await });
    let message = Message { expect: Expect::Length(4), ..Message::list(at) };
    assert!(message.fits(&message.once().await.unwrap()));
    std::fs::remove_file(file).unwrap();
}

/// A server that is wrong every tenth time is seen to be, and one that is wrong at once stops the run.
#[tokio::test]
async fn wrong_answers_are_counted() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let flaky = || async {
        let asked = ASKED.fetch_add(1, Ordering::Relaxed);
        if asked > WARM && asked.is_multiple_of(10) { "wrong" } else { TEXT }
    };
    let (listener, at) = port().await;
    let router = Router::new().route("/mcp", post(flaky));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let message = Message::call(at, "echo");
    let slice = load::run(&message, 1, Until::Calls(100)).await.unwrap();
    assert_eq!((slice.calls, slice.failures), (100, 9));
    let other = Message { expect: Expect::Holds("never said".to_owned()), ..message };
    let error = load::run(&other, 2, Until::Calls(1)).await.unwrap_err();
    assert!(error.contains("200 OK"), "{error}");
}
