//! Connections: what their clients do to them, and what they do to each other's calls.

mod unfinished_messages;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use http::Request;
use http::header::DATE;
use prost::Message;
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadBuf,
};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Status;
use tonic::metadata::MetadataMap;

use super::{DropNotifier, call_of};
use crate::node::{CallRequest, Tool};
use crate::server::pinned_connections::{RequestHandlers, hyper_connection};
use crate::server::{
    ConnectionExtension, FunctionResult, IncomingCall, KEEPALIVE_INTERVAL, MAX_CONCURRENT_STREAMS,
    ServiceFuture, ToolService, build_services,
};

const CALL_FUNCTION_URL: &str = "http://node/toolrpc.ToolExecutor/CallFunction";
const NODE_CALL_URL: &str = "http://node/toolkeep.node.v1.Node/Call";
const LARGE: usize = 8 << 20;

/// `echo` answers its input, `large` 8 MiB, `held` when it is let, and `broken` never.
struct TestServiceInner {
    began: mpsc::UnboundedSender<()>,
    dropped: mpsc::Sender<()>,
    gate: Semaphore,
}

struct TestService(Arc<TestServiceInner>);

impl ToolService for TestService {
    fn check_admission(
        &self,
        headers: MetadataMap,
        _: Option<ConnectionExtension>,
    ) -> ServiceFuture<Result<(), Status>> {
        Box::pin(std::future::ready(super::parse_caller(&headers).map(drop)))
    }

    fn caller_id(&self, _: MetadataMap) -> ServiceFuture<Result<String, Status>> {
        Box::pin(async { Ok(String::new()) })
    }

    fn list_tools(&self, _: MetadataMap) -> ServiceFuture<Result<Vec<Tool>, Status>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn call_tool(&self, asked: IncomingCall) -> ServiceFuture<Result<FunctionResult, Status>> {
        let few = Arc::clone(&self.0);
        Box::pin(async move {
            let mut output = asked.input;
            match asked.tool_name.as_str() {
                "held" => {
                    let _dropped = DropNotifier(few.dropped.clone());
                    few.began.send(()).unwrap();
                    few.gate.acquire().await.unwrap().forget();
                }
                "large" => output = Bytes::from(vec![b'x'; LARGE]),
                "broken" => panic!("as a test wants it"),
                _ => {}
            }
            Ok(FunctionResult { success: true, output, ..FunctionResult::default() })
        })
    }

    fn node_id(&self) -> String {
        String::new()
    }

    fn is_draining(&self) -> bool {
        false
    }
}

/// The client's side of one connection, and what its server knows.
struct PinnedServer {
    stream: DuplexStream,
    few: Arc<TestServiceInner>,
    began: mpsc::UnboundedReceiver<()>,
    dropped: mpsc::Receiver<()>,
    stop: CancellationToken,
    served: JoinHandle<Result<(), String>>,
    writes: Arc<AtomicUsize>,
}

async fn start_pinned_server() -> PinnedServer {
    let (began, dropped) = (mpsc::unbounded_channel(), mpsc::channel(1024));
    let few =
        Arc::new(TestServiceInner { began: began.0, dropped: dropped.0, gate: Semaphore::new(0) });
    let tools = Arc::new(TestService(Arc::clone(&few)));
    let (routes, _) = build_services(tools.clone()).await.unwrap();
    let ways = Arc::new(RequestHandlers { tool_service: tools, routes: routes.prepare() });
    let ((stream, its), stop) = (tokio::io::duplex(1 << 20), CancellationToken::new());
    let writes = Arc::new(AtomicUsize::new(0));
    let its = CountingStream(its, Arc::clone(&writes));
    let served = TaskTracker::new().spawn(hyper_connection::serve_stream(its, ways, stop.clone()));
    PinnedServer { stream, few, began: began.1, dropped: dropped.1, stop, served, writes }
}

/// Counts what is written.
struct CountingStream(DuplexStream, Arc<AtomicUsize>);

impl AsyncRead for CountingStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for CountingStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// A client that takes `window` bytes on one stream, and much on all of them.
async fn client(stream: DuplexStream, window: u32) -> SendRequest<Bytes> {
    let (send, connection) = h2::client::Builder::new()
        .initial_window_size(window)
        .initial_connection_window_size(64 << 20)
        .initial_max_send_streams(1)
        .handshake(stream)
        .await
        .unwrap();
    drop(TaskTracker::new().spawn(connection));
    send
}

fn encode_frame(message: &impl Message) -> Bytes {
    let bytes = message.encode_to_vec();
    let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
    [&[0][..], &length, &bytes].concat().into()
}

/// Begins a call, when it may.
async fn start_call(
    send: &SendRequest<Bytes>,
    path: &str,
    tool: &str,
) -> (ResponseFuture, h2::SendStream<Bytes>) {
    let mut send = send.clone().ready().await.unwrap();
    let body = if path == CALL_FUNCTION_URL {
        encode_frame(&call_of(tool))
    } else {
        encode_frame(&CallRequest { tool_name: tool.to_owned(), ..CallRequest::default() })
    };
    let request = Request::post(path).header("content-type", "application/grpc").body(()).unwrap();
    let (answer, mut stream) = send.send_request(request, false).unwrap();
    stream.send_data(body, true).unwrap();
    (answer, stream)
}

/// The length of an answer that went well.
async fn read(mut body: RecvStream) -> Result<usize, h2::Error> {
    let mut length = 0;
    while let Some(data) = body.data().await {
        let data = data?;
        length += data.len();
        body.flow_control().release_capacity(data.len())?;
        tokio::task::yield_now().await;
    }
    let trailers = body.trailers().await?.unwrap();
    assert_eq!(trailers.get("grpc-status").unwrap(), "0");
    Ok(length)
}

async fn call_path(send: &SendRequest<Bytes>, path: &str, tool: &str) -> Result<usize, h2::Error> {
    let (answer, _stream) = start_call(send, path, tool).await;
    read(answer.await?.into_body()).await
}

#[tokio::test]
async fn an_answer_is_one_write_and_has_a_date() {
    let up = start_pinned_server().await;
    let send = client(up.stream, 1 << 16).await;
    call_path(&send, CALL_FUNCTION_URL, "echo").await.unwrap();
    let before = up.writes.load(Ordering::Relaxed);
    let (answer, _stream) = start_call(&send, CALL_FUNCTION_URL, "echo").await;
    let answer = answer.await.unwrap();
    let date = answer.headers().get(DATE).unwrap().to_str().unwrap();
    assert!(httpdate::parse_http_date(date).is_ok(), "{date}");
    assert_eq!(read(answer.into_body()).await.unwrap(), 5 + 2 + 4);
    assert_eq!(up.writes.load(Ordering::Relaxed), before + 1);
    let (answer, _stream) = start_call(&send, NODE_CALL_URL, "echo").await;
    assert!(answer.await.unwrap().headers().contains_key(DATE));
}

#[tokio::test]
async fn a_client_that_resets_a_stream_drops_that_call_and_no_other() {
    let mut up = start_pinned_server().await;
    let send = client(up.stream, 1 << 16).await;
    for path in [CALL_FUNCTION_URL, NODE_CALL_URL] {
        let other = start_call(&send, path, "held").await;
        up.began.recv().await.unwrap();
        for _ in 0..50 {
            let (_answer, mut stream) = start_call(&send, path, "held").await;
            up.began.recv().await.unwrap();
            call_path(&send, path, "echo").await.unwrap();
            assert!(up.dropped.try_recv().is_err(), "it runs until it is reset");
            stream.send_reset(Reason::CANCEL);
            up.dropped.recv().await.unwrap();
        }
        up.few.gate.add_permits(1);
        read(other.0.await.unwrap().into_body()).await.unwrap();
        up.dropped.recv().await.unwrap();
    }
}

#[tokio::test]
async fn a_connection_that_ends_takes_its_calls_along() {
    for path in [CALL_FUNCTION_URL, NODE_CALL_URL] {
        let mut up = start_pinned_server().await;
        let (mut send, connection) = h2::client::handshake(up.stream).await.unwrap();
        let driven = TaskTracker::new().spawn(connection);
        send = send.ready().await.unwrap();
        let _call = start_call(&send, path, "held").await;
        up.began.recv().await.unwrap();
        driven.abort();
        up.dropped.recv().await.unwrap();
        drop(up.served.await.unwrap());
    }
}

#[tokio::test]
async fn three_hundred_calls_on_one_connection_are_all_answered_and_no_more_run_at_once_than_may() {
    let mut up = start_pinned_server().await;
    let send = client(up.stream, 1 << 16).await;
    call_path(&send, CALL_FUNCTION_URL, "echo").await.unwrap();
    let all = TaskTracker::new().spawn(async move {
        join_all((0..300).map(|_| call_path(&send, CALL_FUNCTION_URL, "held"))).await
    });
    for _ in 0..MAX_CONCURRENT_STREAMS {
        up.began.recv().await.unwrap();
    }
    assert!(up.began.recv().now_or_never().is_none(), "more wait");
    up.few.gate.add_permits(300);
    assert!(all.await.unwrap().iter().all(Result::is_ok));
}

#[tokio::test]
async fn a_large_answer_that_is_read_slowly_waits_and_holds_up_no_other_call() {
    for path in [CALL_FUNCTION_URL, NODE_CALL_URL] {
        let up = start_pinned_server().await;
        let send = client(up.stream, 1 << 16).await;
        let (answer, _stream) = start_call(&send, path, "large").await;
        let large = answer.await.unwrap().into_body();
        for _ in 0..50 {
            call_path(&send, CALL_FUNCTION_URL, "echo").await.unwrap();
            call_path(&send, NODE_CALL_URL, "echo").await.unwrap();
        }
        // The client would have cut the connection if more had come than it takes.
        assert!(read(large).await.unwrap() > LARGE, "{path}");
    }
}

#[tokio::test]
async fn a_call_that_breaks_resets_its_stream_and_no_other() {
    let mut up = start_pinned_server().await;
    let send = client(up.stream, 1 << 16).await;
    let other = start_call(&send, CALL_FUNCTION_URL, "held").await;
    up.began.recv().await.unwrap();
    assert!(call_path(&send, CALL_FUNCTION_URL, "broken").await.unwrap_err().is_reset());
    call_path(&send, CALL_FUNCTION_URL, "echo").await.unwrap();
    up.few.gate.add_permits(1);
    read(other.0.await.unwrap().into_body()).await.unwrap();
}

#[tokio::test]
async fn a_connection_that_is_to_end_lets_its_calls_end_first() {
    for path in [CALL_FUNCTION_URL, NODE_CALL_URL] {
        let mut up = start_pinned_server().await;
        let send = client(up.stream, 1 << 16).await;
        let (answer, _stream) = start_call(&send, path, "held").await;
        up.began.recv().await.unwrap();
        up.stop.cancel();
        // The client hears of it, and begins no more.
        let refused = loop {
            match call_path(&send, CALL_FUNCTION_URL, "echo").now_or_never() {
                Some(Err(error)) => break error,
                _ => tokio::task::yield_now().await,
            }
            if send.clone().ready().now_or_never().is_some_and(|ready| ready.is_err()) {
                break h2::Error::from(Reason::NO_ERROR);
            }
        };
        assert_eq!(refused.reason(), Some(Reason::NO_ERROR));
        assert!(!up.served.is_finished() && up.dropped.try_recv().is_err());
        up.few.gate.add_permits(1);
        read(answer.await.unwrap().into_body()).await.unwrap();
        drop((send, up.served.await.unwrap()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_to_end_and_has_no_calls_ends_at_once() {
    let (up, began) = (start_pinned_server().await, tokio::time::Instant::now());
    let send = client(up.stream, 1 << 16).await;
    call_path(&send, CALL_FUNCTION_URL, "echo").await.unwrap();
    up.stop.cancel();
    // The client may have gone before it was told all.
    drop(up.served.await.unwrap());
    assert!(began.elapsed() < KEEPALIVE_INTERVAL, "nobody waits until it is asked");
    assert!(send.ready().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn who_does_not_shake_hands_is_cut_off_and_who_does_is_not() {
    let mut half = start_pinned_server().await;
    half.stream.write_all(b"PRI * HTTP/2.0\r\n").await.unwrap();
    let whole = start_pinned_server().await;
    let send = client(whole.stream, 1 << 16).await;
    let why = half.served.await.unwrap().unwrap_err();
    assert_eq!(why, "the HTTP/2 preface timed out");
    call_path(&send, CALL_FUNCTION_URL, "echo").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_falls_silent_is_cut_off_and_who_answers_is_not() {
    let silent = start_pinned_server().await;
    let (_send, _undriven) = h2::client::handshake(silent.stream).await.unwrap();
    let heard = start_pinned_server().await;
    let send = client(heard.stream, 1 << 16).await;
    assert_eq!(silent.served.await.unwrap().unwrap_err(), "keepalive timed out");
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_mins(1)).await;
        call_path(&send, CALL_FUNCTION_URL, "echo").await.unwrap();
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// So many calls in one write, each of them reset at once; then a question whether the server is there.
fn reset_frames(count: u32) -> Vec<u8> {
    let text = |name: &[u8], text: &str| {
        [name, &[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
    };
    let path = text(&[0x04], "/toolrpc.ToolExecutor/CallFunction");
    let headers = [&[0x83, 0x86][..], &text(&[0x01], "node"), &path].concat();
    let headers = [headers, text(&[0x0f, 0x10], "application/grpc")].concat();
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, &[]));
    for call in 0..count {
        bytes.extend(frame(1, 4, 2 * call + 1, &headers));
        bytes.extend(frame(3, 0, 2 * call + 1, &8_u32.to_be_bytes()));
    }
    bytes.extend(frame(6, 0, 0, b"are you?"));
    bytes
}

/// Why the server ended it, or that it is there still.
async fn read_goaway(stream: &mut DuplexStream) -> Result<(), u32> {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.unwrap();
        let mut payload = vec![0; usize::from(u16::from_be_bytes([head[1], head[2]]))];
        stream.read_exact(&mut payload).await.unwrap();
        match (head[3], head[4]) {
            (7, _) => return Err(u32::from_be_bytes(payload[4..8].try_into().unwrap())),
            (6, 1) => return Ok(()),
            _ => {}
        }
    }
}

#[tokio::test]
async fn who_resets_calls_as_fast_as_they_can_be_written_is_cut_off() {
    for (count, cut) in [(10, false), (1000, true)] {
        let mut up = start_pinned_server().await;
        up.stream.write_all(&reset_frames(count)).await.unwrap();
        let calm = u32::from(Reason::ENHANCE_YOUR_CALM);
        assert_eq!(read_goaway(&mut up.stream).await, if cut { Err(calm) } else { Ok(()) });
        if cut {
            assert!(up.served.await.unwrap().is_err());
        }
    }
}
