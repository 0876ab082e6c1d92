//! The rows of shared data about framing, as requests and, with a status line in place of theirs, as responses.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use testkit::shared_data::read_rows;

use crate::compare::DifferenceCount;
use crate::lenient_reader;
use crate::readers::{our_requests, our_responses};
use crate::scripted_stream::timers;

const STEPS: [usize; 4] = [usize::MAX, 64, 7, 1];

/// All rows: their bytes, or a request of their path. Floods are no bytes that one reader could take for others.
fn inputs() -> Vec<Vec<u8>> {
    let rows = read_rows("attacks/http_framing.jsonl");
    let floods = rows.iter().filter(|row| row["scenario"].is_string()).count();
    let inputs: Vec<_> = rows.iter().filter_map(bytes).collect();
    assert_eq!(inputs.len() + floods, rows.len());
    inputs
}

fn bytes(row: &Value) -> Option<Vec<u8>> {
    let decode = |text: &Value| STANDARD.decode(text.as_str().unwrap()).unwrap();
    if let Some(text) = row.get("raw_b64") {
        return Some(decode(text));
    }
    if let Some(text) = row.get("raw_zlib_b64") {
        let mut unpacked = Vec::new();
        let packed = decode(text);
        flate2::read::ZlibDecoder::new(&packed[..]).read_to_end(&mut unpacked).unwrap();
        return Some(unpacked);
    }
    let path = row["path"].as_str()?;
    let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    Some(head.into_bytes())
}

#[test]
fn every_row_is_the_request_that_hyper_reads_or_is_passed_on() {
    let timers = timers();
    let _entered = timers.enter();
    let (mut ours, mut control) = (DifferenceCount::default(), DifferenceCount::default());
    for input in inputs() {
        // Behind a plain request, and before one, it is to be read as alone.
        let plain = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}";
        for input in [input.clone(), [&plain[..], &input].concat(), [&input[..], plain].concat()] {
            for step in STEPS.into_iter().filter(|step| *step > 1 || input.len() < 10_000) {
                ours.requests(&input, step, our_requests(&input, step));
                control.requests(&input, step, lenient_reader::requests(&input));
            }
        }
    }
    ours.assert_no_differences("rows as requests");
    assert!(!control.differing.is_empty() && ours.same > 90, "{}", control.differing.len());
}

#[test]
fn every_row_is_the_response_that_hyper_reads_or_is_refused() {
    let (mut ours, mut control) = (DifferenceCount::default(), DifferenceCount::default());
    for input in inputs() {
        let end = input.iter().position(|byte| *byte == b'\n').map_or(input.len(), |at| at + 1);
        let answer = [&b"HTTP/1.1 200 OK\r\n"[..], &input[end..]].concat();
        let plain = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".to_vec();
        for parts in
            [vec![answer.clone()], vec![plain.clone(), answer.clone()], vec![answer, plain]]
        {
            for step in STEPS.into_iter().filter(|step| *step > 1 || input.len() < 10_000) {
                ours.responses(&parts, (false, step), our_responses(&parts, false, step));
                control.responses(&parts, (false, step), lenient_reader::responses(&parts));
            }
        }
    }
    ours.assert_no_differences("rows as responses");
    assert!(!control.differing.is_empty() && ours.same > 90, "{}", control.differing.len());
}
