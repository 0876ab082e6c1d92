use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use testkit::context::test_caller;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tool::{Caller, Json, SourceName};

use super::{CloseReason, PipeTransport, RequestEvent, RequestRole};
use crate::call_attribution::{ConnectionCallers, UnattributedRequests};
use crate::connection::ConnectionContext;
use crate::notifications::NotificationRouter;

const SOON: Duration = Duration::from_secs(10);
const CALL: RequestRole = RequestRole::Call(None);

/// Pipe transport and the server's ends of its pipes.
fn pipe(longest: usize) -> (PipeTransport, DuplexStream, DuplexStream, ConnectionContext) {
    let (reader, theirs_out) = tokio::io::duplex(64);
    let (theirs_in, writer) = tokio::io::duplex(64);
    let shared = ConnectionContext {
        notifications: Arc::new(NotificationRouter::new(Arc::default())),
        stray_output: Arc::default(),
        close_signal: Arc::default(),
        callers: Arc::new(ConnectionCallers::new(UnattributedRequests::new(
            SourceName::new("s").unwrap(),
        ))),
        tasks: TaskTracker::new(),
    };
    let pipe =
        PipeTransport::spawn_tasks((Box::new(reader), Box::new(writer)), longest, shared.clone());
    (pipe, theirs_out, theirs_in, shared)
}

fn progress(of: i64, done: usize) -> String {
    let params = json!({"progressToken": of, "progress": done});
    format!("{}\n", json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))
}

#[tokio::test]
async fn an_answer_has_its_place_however_much_is_told_before_it() {
    let (pipe, mut out, _in, _shared) = pipe(1000);
    let mut events = pipe.register_request(7, CALL).unwrap();
    for done in 0..200 {
        out.write_all(progress(7, done).as_bytes()).await.unwrap();
    }
    out.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":\"7\",\"result\":{}}\n").await.unwrap();
    let mut told = 0;
    let answer = timeout(SOON, async {
        loop {
            match events.recv().await.unwrap() {
                RequestEvent::Progress(_) => told += 1,
                RequestEvent::Response(answer) => return answer.unwrap(),
                other => panic!("{other:?}"),
            }
        }
    });
    assert_eq!(answer.await.unwrap(), Json::empty_object());
    assert!((1..200).contains(&told), "{told}");
}

#[tokio::test]
async fn questions_are_answered_one_after_the_other() {
    let (_pipe, mut out, theirs, _shared) = pipe(1000);
    let ask = async {
        for n in 0..200 {
            let question = format!("{{\"jsonrpc\":\"2.0\",\"id\":{n},\"method\":\"ping\"}}\n");
            out.write_all(question.as_bytes()).await.unwrap();
        }
    };
    let hear = async {
        let mut lines = BufReader::new(theirs).lines();
        for n in 0..200 {
            let line = lines.next_line().await.unwrap().unwrap();
            assert_eq!(line, format!("{{\"jsonrpc\":\"2.0\",\"id\":{n},\"result\":{{}}}}"));
        }
    };
    timeout(SOON, async { tokio::join!(ask, hear) }).await.unwrap();
}

/// With two calls in flight, or with calls of two callers, the call of a request cannot be
/// determined.
#[tokio::test]
async fn a_question_goes_to_the_only_call_of_an_only_caller_or_to_nobody() {
    let (pipe, mut out, theirs, shared) = pipe(1000);
    shared.callers.add_caller(&test_caller());
    let mut lines = BufReader::new(theirs).lines();
    let question = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"roots/list\"}\n";
    let mut first = pipe.register_request(1, CALL).unwrap();
    let _list = pipe.register_request(2, RequestRole::Internal).unwrap();
    out.write_all(question).await.unwrap();
    let event = timeout(SOON, first.recv()).await.unwrap();
    assert!(matches!(event, Some(RequestEvent::InputRequested(_))));

    let mut second = pipe.register_request(3, CALL).unwrap();
    out.write_all(question).await.unwrap();
    let line = timeout(SOON, lines.next_line()).await.unwrap().unwrap().unwrap();
    assert!(line.contains("-32603") && line.contains("cannot be attributed"), "{line}");
    assert!(first.try_recv().is_err() && second.try_recv().is_err());

    pipe.unregister_request(2);
    pipe.unregister_request(3);
    shared.callers.add_caller(&Caller { key_id: "other".to_owned(), ..test_caller() });
    // The same holds for an error without an id.
    out.write_all(b"{\"jsonrpc\":\"2.0\",\"error\":{\"code\":1,\"message\":\"\"}}\n")
        .await
        .unwrap();
    out.write_all(question).await.unwrap();
    let line = timeout(SOON, lines.next_line()).await.unwrap().unwrap().unwrap();
    assert!(line.contains("cannot be attributed"), "{line}");
    assert!(first.try_recv().is_err());
}

#[tokio::test]
async fn the_end_of_the_output_is_the_end_of_the_connection() {
    let (pipe, out, _in, shared) = pipe(1000);
    let mut events = pipe.register_request(1, CALL).unwrap();
    drop(out);
    assert!(timeout(SOON, events.recv()).await.unwrap().is_none());
    assert!(shared.close_signal.closed.is_cancelled());
    assert_eq!(shared.close_signal.close_reason(), None);
    assert!(pipe.register_request(2, CALL).is_none());
}

#[tokio::test]
async fn closing_lets_go_of_the_input() {
    let (pipe, _out, theirs, _shared) = pipe(1000);
    pipe.send_message("{\n}".into()).await.unwrap();
    pipe.close_input();
    let mut lines = BufReader::new(theirs).lines();
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "{ }");
    assert_eq!(timeout(SOON, lines.next_line()).await.unwrap().unwrap(), None);
    assert!(pipe.send_message("{}".into()).await.is_err());
}

#[tokio::test]
async fn noise_without_end_breaks_it() {
    let (_pipe, mut out, _in, shared) = pipe(10);
    let flood = async { while out.write_all(b"a line that is too long\n").await.is_ok() {} };
    timeout(SOON, flood).await.unwrap();
    assert!(matches!(shared.close_signal.close_reason(), Some(CloseReason::StrayOutput(_))));
}
