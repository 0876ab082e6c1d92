//! The short ways of calling and of answering beside the long ones, in all four ways together.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Code;

use super::{TwoCallerTools, call_of};
use crate::client::{GrpcChannel, IoStream};
use crate::server::{RuntimeAssignment, serve_pinned, serve_tcp};
use crate::toolrpc::CallFunctionRequest;

const SOON: Duration = Duration::from_secs(20);

async fn start_server(seated: bool) -> (SocketAddr, CancellationToken, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let ((sender, dropped), stop) = (mpsc::channel(8), CancellationToken::new());
    let (tools, ending) = (Arc::new(TwoCallerTools { dropped: sender }), stop.clone());
    drop(TaskTracker::new().spawn(async move {
        if !seated {
            return serve_tcp(tools, listener, None, ending).await;
        }
        let seat = || RuntimeAssignment {
            runtime: tokio::runtime::Handle::current(),
            guard: Box::new(()),
        };
        serve_pinned(tools, listener, &seat, ending).await
    }));
    (address, stop, dropped)
}

#[expect(clippy::disallowed_methods, reason = "a test is the client")]
fn open_channel(address: SocketAddr) -> GrpcChannel {
    GrpcChannel::with_runtime_connections(move || {
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            Ok(Box::new(stream) as Box<dyn IoStream>)
        })
    })
}

#[tokio::test]
async fn all_ways_answer_alike() {
    let large = "x".repeat(3 << 20);
    for seated in [false, true] {
        let (address, stop, _dropped) = start_server(seated).await;
        let line = open_channel(address);
        for input in ["", "{\"a\":1}", &large] {
            for tool in ["echo", "missing"] {
                let call = CallFunctionRequest { input: input.to_owned().into(), ..call_of(tool) };
                let long =
                    line.executor_client().call_function(call.clone()).await.unwrap().into_inner();
                assert_eq!(line.call_function(call, SOON).await.unwrap(), long);
                assert_eq!(long.success, tool == "echo");
                assert!(long.output == input.as_bytes() || !long.success);
            }
        }
        // The server is asked for other things over the same port.
        assert_eq!(
            line.node_client()
                .list(crate::node::ListRequest {})
                .await
                .unwrap()
                .into_inner()
                .tools
                .len(),
            1
        );
        stop.cancel();
    }
}

#[tokio::test]
async fn a_call_whose_time_is_over_is_dropped_on_both_sides() {
    for seated in [false, true] {
        let (address, _stop, mut dropped) = start_server(seated).await;
        let line = open_channel(address);
        let late =
            line.call_function(call_of("lost"), Duration::from_millis(100)).await.unwrap_err();
        assert_eq!((late.code(), late.message()), (Code::Cancelled, "Timeout expired"));
        dropped.recv().await.unwrap();
        assert!(line.call_function(call_of("echo"), SOON).await.unwrap().success, "the line holds");
    }
}

#[tokio::test]
async fn what_was_surely_not_sent_says_so_and_the_line_comes_back() {
    use std::error::Error as _;
    let unsent = |status: &tonic::Status| {
        status.source().is_some_and(|source| source.is::<tonic::ConnectError>())
    };
    let (address, stop, _dropped) = start_server(true).await;
    let line = open_channel(address);
    assert!(line.call_function(call_of("echo"), SOON).await.unwrap().success);
    stop.cancel();
    let lost = loop {
        match line.call_function(call_of("echo"), SOON).await {
            Ok(_) => tokio::task::yield_now().await,
            Err(status) => break status,
        }
    };
    assert!(lost.source().is_some(), "{lost:?}");
    let away = line.call_function(call_of("echo"), SOON).await.unwrap_err();
    assert!(unsent(&away), "{away:?}");
}

/// The status of a call with this body.
#[expect(clippy::disallowed_methods, reason = "a test is the client")]
async fn send_raw(address: SocketAddr, body: &[u8]) -> i32 {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut send, connection) = h2::client::handshake(stream).await.unwrap();
    drop(TaskTracker::new().spawn(connection));
    let request = Request::post("http://node/toolrpc.ToolExecutor/CallFunction")
        .header("content-type", "application/grpc");
    let (answer, mut stream) = send.send_request(request.body(()).unwrap(), false).unwrap();
    stream.send_data(Bytes::copy_from_slice(body), true).unwrap();
    let (head, mut body) = answer.await.unwrap().into_parts();
    while let Some(data) = body.data().await {
        let length = data.unwrap().len();
        body.flow_control().release_capacity(length).unwrap();
    }
    let trailers = body.trailers().await.unwrap().unwrap_or_else(HeaderMap::new);
    let status = head.headers.get("grpc-status").or(trailers.get("grpc-status")).unwrap();
    status.to_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn what_is_no_call_is_refused_on_the_short_way_as_on_the_long_one() {
    let [short, long] = [start_server(true).await, start_server(false).await];
    let whole = b"\0\0\0\0\x06\x0a\x04echo";
    for (body, fits) in [
        (&whole[..], true),
        (b"\0\0\0\0\0", true),
        (b"", false),
        (b"\0\0\0", false),
        (b"\0\0\0\0\x06\x0a\x04ech", false),
        (b"\x01\0\0\0\x06\x0a\x04echo", false),
        (b"\0\x7f\xff\xff\xff\x0a\x04echo", false),
        (b"\0\0\0\0\x06\x0a\x09echo", false),
    ] {
        for (address, ..) in [&short, &long] {
            assert_eq!(send_raw(*address, body).await == 0, fits, "{body:?}");
        }
    }
    // Two messages: who takes the first one alone does not hear of the other.
    assert_ne!(send_raw(short.0, &whole.repeat(2)).await, 0);
}
