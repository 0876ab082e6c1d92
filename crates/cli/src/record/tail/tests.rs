use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use serde_json::{Value, json};
use tool::BoxFuture;

use super::RecordTailArgs;
use cli_core::command_error::ExitStatus;
use cli_core::printer::{OutputFormat, Printer};
use cli_core::rest_client::RestClient;
use cli_core::server_transport::{ServerTransport, TransportError};

/// Answers one after the other, and none when they are through.
struct Answers(Mutex<VecDeque<Value>>, Mutex<Vec<String>>);

impl ServerTransport for Answers {
    fn send_request(
        &self,
        request: Request<Bytes>,
    ) -> BoxFuture<'_, Result<Response<Bytes>, TransportError>> {
        self.1.lock().unwrap().push(request.uri().to_string());
        let body = self.0.lock().unwrap().pop_front();
        let answer = match body {
            Some(body) => Ok(Response::new(Bytes::from(body.to_string()))),
            None => Err(TransportError("gone".to_owned())),
        };
        Box::pin(std::future::ready(answer))
    }
}

fn records(seqs: &[u64], cursor: Option<&str>) -> Value {
    let record = |seq: &u64| json!({ "seq": seq, "kind": "intent", "body": { "at": seq } });
    let records: Vec<_> = seqs.iter().map(record).collect();
    json!({ "records": records, "next_cursor": cursor })
}

fn door(answers: Vec<Value>) -> (Arc<Answers>, RestClient) {
    let door = Arc::new(Answers(Mutex::new(answers.into()), Mutex::default()));
    (Arc::clone(&door), RestClient::new(door, None))
}

fn tail(lines: u16) -> RecordTailArgs {
    RecordTailArgs { tool: Some("echo".to_owned()), lines, every_ms: 1 }
}

#[tokio::test]
async fn each_record_is_shown_once_in_the_order_it_was_written() {
    let (door, client) = door(vec![
        records(&[2, 1], None),
        records(&[2, 1], None),
        records(&[5, 4], Some("4")),
        records(&[3, 2, 1], None),
        records(&[6, 5, 4], Some("4")),
    ]);
    let kept = Kept::default();
    let mut ui = Printer::with_streams(OutputFormat::Json, kept.clone(), std::io::sink());
    let failure = tail(2).follow_records(&client, &mut ui).await.unwrap_err();
    assert_eq!(
        failure.exit_status(),
        ExitStatus::ServerUnavailable,
        "a server that went away is told"
    );
    let seqs: Vec<_> = kept.lines().iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, [1, 2, 3, 4, 5, 6]);
    let asked = door.1.lock().unwrap();
    assert_eq!(asked[0], "/v1/records?limit=2&tool=echo");
    assert_eq!(asked[3], "/v1/records?limit=1000&cursor=4&tool=echo");
}

#[tokio::test]
async fn with_no_lines_only_what_is_new_is_shown_even_on_an_empty_record() {
    for (first, then) in [(records(&[7], None), &[8][..]), (records(&[], None), &[8, 9][..])] {
        let mut newest_first = then.to_vec();
        newest_first.reverse();
        let (_, client) = door(vec![first, records(&newest_first, None)]);
        let kept = Kept::default();
        let mut ui = Printer::with_streams(OutputFormat::Json, kept.clone(), std::io::sink());
        let _gone = tail(0).follow_records(&client, &mut ui).await.unwrap_err();
        let seqs: Vec<_> = kept.lines().iter().map(|line| line["seq"].as_u64().unwrap()).collect();
        assert_eq!(seqs, then);
    }
}

#[tokio::test]
async fn pages_without_records_end_where_the_look_before_ended() {
    // The control is the first look: the server has more, and what is there is newer.
    for (since, pages) in [(1, 4), (7, 3), (8, 2)] {
        let empty = |cursor: &str| records(&[], Some(cursor));
        let (door, client) = door(vec![empty("20"), empty("9"), empty("8"), records(&[], None)]);
        let fresh = tail(0).fetch_new_records(&client, Some(since)).await.unwrap();
        assert!(!fresh.has_gap && fresh.records.is_empty());
        assert_eq!(door.1.lock().unwrap().len(), pages, "{since}");
    }
}

#[tokio::test]
async fn a_server_that_always_has_more_is_bounded() {
    let (door, client) = door((0..50).map(|n| records(&[1_000 - n], Some("9"))).collect());
    let fresh = tail(0).fetch_new_records(&client, Some(1)).await.unwrap();
    assert!(fresh.has_gap);
    assert_eq!(
        (fresh.records.len(), door.1.lock().unwrap().len()),
        (super::MAX_PAGES_PER_POLL, super::MAX_PAGES_PER_POLL)
    );
}

struct Gone;
impl std::io::Write for Gone {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::BrokenPipe.into())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn it_ends_when_its_reader_went_away() {
    let (_, client) = door(vec![records(&[1], None)]);
    let mut ui = Printer::with_streams(OutputFormat::Text, Gone, std::io::sink());
    tail(1).follow_records(&client, &mut ui).await.unwrap();
}

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);
impl Kept {
    fn lines(&self) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}
impl std::io::Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
