//! Messages that never arrive in full: who sends them, how long they are waited for, and how many bytes
//! of them there may be. Time stands still here, and moves on only where everybody waits for it.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request};
use tokio::time::Instant;
use tonic::Code;

use super::{
    CALL_FUNCTION_URL, NODE_CALL_URL, call_of, call_path, client, encode_frame, read,
    start_pinned_server,
};
use crate::toolrpc::CallFunctionRequest;

/// Sends the headers of a call alone.
async fn headers(
    send: &SendRequest<Bytes>,
    (path, key): (&str, &str),
) -> (ResponseFuture, SendStream<Bytes>) {
    let mut send = send.clone().ready().await.unwrap();
    let request = Request::post(path).header("content-type", "application/grpc");
    let request = request.header("authorization", key).body(()).unwrap();
    send.send_request(request, false).unwrap()
}

/// The status of an answer, wherever it stands.
async fn status(answer: ResponseFuture) -> Code {
    let (head, mut body): (_, RecvStream) = answer.await.unwrap().into_parts();
    while let Some(data) = body.data().await {
        let length = data.unwrap().len();
        body.flow_control().release_capacity(length).unwrap();
    }
    let trailers = body.trailers().await.unwrap().unwrap_or_else(HeaderMap::new);
    let status = head.headers.get("grpc-status").or(trailers.get("grpc-status")).unwrap();
    Code::from_bytes(status.as_bytes())
}

#[tokio::test(start_paused = true)]
async fn who_has_no_good_key_is_answered_before_a_message_is_waited_for() {
    for path in [CALL_FUNCTION_URL, NODE_CALL_URL] {
        let up = start_pinned_server().await;
        let send = client(up.stream, 1 << 16).await;
        call_path(&send, CALL_FUNCTION_URL, "echo").await.unwrap();
        let before = Instant::now();
        let (refused, _unsent) = headers(&send, (path, "Bearer bad")).await;
        assert_eq!(status(refused).await, Code::Unauthenticated, "{path}");
        assert_eq!(before.elapsed(), Duration::ZERO, "{path}: at once");
        // The control: with a key the message is waited for, and not for ever.
        let (late, _unsent) = headers(&send, (path, "Bearer good")).await;
        assert_eq!(status(late).await, Code::DeadlineExceeded, "{path}");
        let waited = before.elapsed();
        assert!(
            waited >= Duration::from_secs(30) && waited < Duration::from_secs(60),
            "{waited:?}"
        );
        // And where it comes in time, it is a call like any other.
        let (answer, mut rest) = headers(&send, (CALL_FUNCTION_URL, "Bearer good")).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        rest.send_data(encode_frame(&call_of("echo")), true).unwrap();
        assert_eq!(status(answer).await, Code::Ok);
        call_path(&send, path, "echo").await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_unfinished_messages_of_a_connection_are_bounded() {
    let up = start_pinned_server().await;
    let send = client(up.stream, 1 << 16).await;
    call_path(&send, CALL_FUNCTION_URL, "echo").await.unwrap();
    let call = CallFunctionRequest { input: vec![b'x'; 9 << 20].into(), ..call_of("echo") };
    let whole = encode_frame(&call);
    let mut begun = Vec::new();
    for _ in 0..8 {
        let (answer, mut rest) = headers(&send, (CALL_FUNCTION_URL, "Bearer good")).await;
        rest.send_data(whole.slice(..whole.len() - 1), false).unwrap();
        begun.push((answer, rest));
    }
    // All that can arrive has.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let ended = begun.into_iter().map(|(answer, mut rest)| {
        let last = whole.slice(whole.len() - 1..);
        // A stream that was refused takes no more.
        drop(rest.send_data(last, true));
        async move {
            let _rest = rest;
            status(answer).await
        }
    });
    let ended = join_all(ended).await;
    let count = |code| ended.iter().filter(|ended| **ended == code).count();
    assert_eq!((count(Code::Ok), count(Code::ResourceExhausted)), (6, 2), "{ended:?}");
    // What was given back is there for others.
    let (answer, mut rest) = headers(&send, (CALL_FUNCTION_URL, "Bearer good")).await;
    rest.send_data(whole, true).unwrap();
    assert!(read(answer.await.unwrap().into_body()).await.unwrap() > 9 << 20);
}
