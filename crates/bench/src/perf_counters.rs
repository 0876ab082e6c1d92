//! Instructions per call of the whole machine, counted with `perf`: a figure independent of the
//! machine's speed. If `perf` cannot count them, the report says so.

use std::fs;
use std::path::Path;
use std::process::Command;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::load_generator::{self, SliceEnd};
use crate::target::MeasuredTarget;
use crate::timed_request::{ExpectedBody, TimedRequest};

/// Number of counted calls of all callers.
const COUNTED_CALLS: usize = 20_000;

/// Checks whether instructions can be counted on this machine.
pub(crate) fn check_available() -> Result<(), String> {
    let ended = Command::new("perf")
        .args(["stat", "--all-cpus", "--field-separator", ",", "--event", "instructions", "true"])
        .output()
        .map_err(|e| format!("`perf` does not start: {e}"))?;
    let text = String::from_utf8_lossy(&ended.stderr);
    parse_count(&text)
        .map(drop)
        .ok_or_else(|| "`perf` says that this machine counts none".to_owned())
}

/// Counts instructions per call of `target`; the callers run in their own process under `perf`.
pub(crate) fn count_instructions(
    target: &MeasuredTarget,
    callers: usize,
    folder: &Path,
) -> Result<f64, String> {
    let request = folder.join("request.json");
    fs::write(&request, write_request(&target.message))
        .map_err(|e| format!("`{}`: {e}", request.display()))?;
    let program = std::env::current_exe().map_err(|e| format!("who am I: {e}"))?;
    let each = COUNTED_CALLS.div_ceil(callers);
    let ended = Command::new("perf")
        .args(["stat", "--all-cpus", "--field-separator", ",", "--event", "instructions", "--"])
        .arg(program)
        .arg("load")
        .arg(&request)
        .args([callers.to_string(), each.to_string()])
        .output()
        .map_err(|e| format!("`perf` does not start: {e}"))?;
    let text = String::from_utf8_lossy(&ended.stderr);
    if !ended.status.success() {
        return Err(format!("counting failed: {}", String::from_utf8_lossy(&ended.stdout)));
    }
    let all = parse_count(&text).ok_or("`perf` gave no count")?;
    Ok(all / (callers * (each + load_generator::WARMUP_CALLS)) as f64)
}

/// Parses `123456,,instructions,…` and sums the lines of machines with several kinds of cores.
fn parse_count(text: &str) -> Option<f64> {
    let line = |line: &str| {
        let mut fields = line.split(',');
        let value: f64 = fields.next()?.trim().parse().ok()?;
        fields.nth(1)?.contains("instructions").then_some(value)
    };
    text.lines().filter_map(line).reduce(|sum, value| sum + value).filter(|sum| *sum > 0.0)
}

fn write_request(message: &TimedRequest) -> String {
    let expect = match &message.expect {
        ExpectedBody::Contains(text) => json!({"holds": text}),
        ExpectedBody::Length(length) => json!({"length": length}),
        ExpectedBody::Anything => Value::Null,
    };
    let body = String::from_utf8_lossy(&message.body);
    json!({"address": message.address.to_string(), "headers": message.headers, "body": body, "expect": expect})
        .to_string()
}

fn read_request(text: &str) -> Option<TimedRequest> {
    let value: Value = serde_json::from_str(text).ok()?;
    let expect = value.get("expect")?;
    let holds = expect
        .get("holds")
        .and_then(Value::as_str)
        .map(|text| ExpectedBody::Contains(text.to_owned()));
    let length = expect.get("length").and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    Some(TimedRequest {
        address: value.get("address")?.as_str()?.parse().ok()?,
        headers: serde_json::from_value(value.get("headers")?.clone()).ok()?,
        body: Bytes::from(value.get("body")?.as_str()?.to_owned()),
        expect: holds.or(length.map(ExpectedBody::Length)).unwrap_or(ExpectedBody::Anything),
    })
}

/// Runs `bench load FILE CALLERS CALLS`, the process that `perf` measures.
pub(crate) async fn run_load(args: &[&str]) -> Result<(), String> {
    let [file, callers, calls] = args else { return Err("load FILE CALLERS CALLS".to_owned()) };
    let text = fs::read_to_string(file).map_err(|e| format!("`{file}`: {e}"))?;
    let message = read_request(&text).ok_or_else(|| format!("`{file}` holds no request"))?;
    let number = |text: &str| text.parse::<u64>().map_err(|e| format!("`{text}`: {e}"));
    let callers = usize::try_from(number(callers)?).map_err(|e| e.to_string())?;
    let slice =
        load_generator::run_slice(&message, callers, SliceEnd::Calls(number(calls)?)).await?;
    if slice.failures > 0 {
        return Err(format!("{} of {} calls failed", slice.failures, slice.calls));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::{parse_count, read_request, write_request};
    use crate::timed_request::TimedRequest;

    #[test]
    fn counts_are_read_and_their_absence_too() {
        assert_eq!(parse_count("\n222000000,,instructions,1000,100.00,,\n"), Some(222_000_000.0));
        assert_eq!(
            parse_count(
                "1000,,cpu_core/instructions/,9,50.00,,\n500,,cpu_atom/instructions/,9,50.00,,"
            ),
            Some(1500.0)
        );
        assert_eq!(parse_count("<not supported>,,instructions,0,100.00,,"), None);
        assert_eq!(parse_count("12,,cycles,0,100.00,,"), None);
    }

    #[test]
    fn a_request_reads_back() {
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let message = TimedRequest::tool_call(nowhere, "echo")
            .with_headers(&[("a".to_owned(), "b".to_owned())]);
        let back = read_request(&write_request(&message)).unwrap();
        assert_eq!(
            (back.address, back.headers, back.body),
            (message.address, message.headers, message.body)
        );
        assert_eq!(back.expect, message.expect);
        assert!(read_request("{}").is_none());
    }
}
