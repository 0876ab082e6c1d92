use std::sync::Arc;
use std::time::Duration;

use rmcp::model::ServerJsonRpcMessage;
use rmcp::transport::Transport as _;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::{Broken, End, Pipe, Shared};

const CHANGED: &str = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n";

/// A pipe, and the server's ends of it.
fn pipe(longest: usize) -> (Pipe, DuplexStream, DuplexStream, Arc<End>) {
    let (reader, theirs_out) = tokio::io::duplex(64);
    let (theirs_in, writer) = tokio::io::duplex(64);
    let end = Arc::<End>::default();
    let shared = Shared { inflight: Arc::default(), noise: Arc::default(), end: Arc::clone(&end) };
    let pipe =
        Pipe::open((Box::new(reader), Box::new(writer)), longest, shared, &TaskTracker::new());
    (pipe, theirs_out, theirs_in, end)
}

/// rmcp drops the future of `receive` whenever anything else happens.
#[tokio::test]
async fn a_message_is_not_lost_where_receiving_is_given_up_again_and_again() {
    let (mut pipe, mut out, _in, _end) = pipe(1000);
    let write = async {
        for byte in CHANGED.repeat(3).bytes() {
            out.write_all(&[byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    let read = async {
        let mut messages = 0;
        while messages < 3 {
            tokio::select! {
                biased;
                message = pipe.receive() => {
                    assert!(matches!(message, Some(ServerJsonRpcMessage::Notification(_))));
                    messages += 1;
                }
                () = tokio::task::yield_now() => {}
            }
        }
    };
    timeout(Duration::from_secs(10), async { tokio::join!(write, read) }).await.unwrap();
}

/// Nor is an answer to a question of the server.
#[tokio::test]
async fn a_question_is_answered_once_where_receiving_is_given_up() {
    let (mut pipe, mut out, theirs, _end) = pipe(1000);
    let ask = async {
        for n in 0..200 {
            let question = format!("{{\"jsonrpc\":\"2.0\",\"id\":{n},\"method\":\"ping\"}}\n");
            out.write_all(question.as_bytes()).await.unwrap();
        }
    };
    let receive = async {
        loop {
            tokio::select! {
                biased;
                message = pipe.receive() => panic!("{message:?}"),
                () = tokio::task::yield_now() => {}
            }
        }
    };
    let hear = async {
        let mut lines = BufReader::new(theirs).lines();
        for n in 0..200 {
            let line = lines.next_line().await.unwrap().unwrap();
            assert_eq!(line, format!("{{\"jsonrpc\":\"2.0\",\"id\":{n},\"result\":{{}}}}"));
        }
    };
    let all = async {
        tokio::select! {
            ((), ()) = async { tokio::join!(ask, hear) } => {}
            () = receive => {}
        }
    };
    timeout(Duration::from_secs(10), all).await.unwrap();
}

#[tokio::test]
async fn the_end_of_the_output_is_the_end_of_the_connection() {
    let (mut pipe, out, _in, end) = pipe(1000);
    drop(out);
    assert!(pipe.receive().await.is_none());
    assert!(end.over.is_cancelled());
    assert_eq!(end.why(), None);
}

#[tokio::test]
async fn noise_without_end_breaks_it() {
    let (mut pipe, mut out, _in, end) = pipe(10);
    let flood = async { while out.write_all(b"a line that is too long\n").await.is_ok() {} };
    tokio::select! {
        message = pipe.receive() => assert!(message.is_none()),
        () = flood => panic!("the pipe closed by itself"),
    }
    assert!(matches!(end.why(), Some(Broken::Noise(_))));
}
