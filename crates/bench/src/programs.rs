//! `bench programs`: ten calls in one program against the same ten calls at the REST door, in turns; how soon
//! a program starts; and what many that wait take.

mod report;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::SendRequest;
use serde_json::{Value, json};

use crate::goal;
use crate::machine;
use crate::message::connect;
use crate::options::Flags;
use crate::toolkeep::Toolkeep;
use report::{Report, Row};

pub(crate) const USAGE: &str = "usage: cargo xtask bench programs [--write]\n\n  --write   also write the report, docs/reference/benchmarks-programs.md";

/// Calls of one program, times that it runs in one slice, and slices of each kind.
const CALLS: usize = 10;
const TIMES: usize = 100;
const SLICES: usize = 10;
/// Programs that wait at once.
const WAITING: usize = 1_000;
const CONFIGURATION: &str = "version: 1\napprovals: { pending: 10000, per_minute: 10000 }\n";

/// Measures, prints, and writes where asked.
pub(crate) async fn run(flags: &[&str]) -> Result<(), String> {
    let Flags { binary, file } = Flags::read(flags).ok_or(USAGE)?;
    let folder = std::env::temp_dir().join(format!("toolkeep-programs-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|e| format!("`{}`: {e}", folder.display()))?;
    let measured = measured(Path::new(binary), &folder).await;
    drop(fs::remove_dir_all(&folder));
    let text = measured?.to_string();
    goal::publish(&text, file)
}

async fn measured(binary: &Path, folder: &Path) -> Result<Report, String> {
    let toolkeep = Toolkeep::greeted(Command::new(binary), CONFIGURATION, folder).await?;
    let mut door = Door::open(&toolkeep, folder).await?;
    let lines: Vec<_> = (0..CALLS).map(|n| format!("a{n} = calculate('6 * 7')")).collect();
    let plain = lines.join("\n");
    let looped = format!("for n in range({CALLS}):\n    calculate(f'6 * {{n}}')\n");
    let mut rows = [
        Row::new("ten calls at the REST door, one after the other", None),
        Row::new("one program of ten plain calls (one wave)", Some(plain)),
        Row::new("one program that calls ten times in a loop", Some(looped)),
    ];
    for row in &rows {
        door.did(row, 20).await?;
    }
    for _ in 0..SLICES {
        for row in &mut rows {
            let before = (tree(toolkeep.part.pid()), machine::busy());
            let times = door.did(row, TIMES).await?;
            let after = (tree(toolkeep.part.pid()), machine::busy());
            row.add(times, after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
        }
    }
    let mut start = Row::new("a program without calls, warm", Some("1".to_owned()));
    start.add(door.did(&start, 500).await?, Duration::ZERO, Duration::ZERO);
    let waiting = waiting(&toolkeep, &mut door).await?;
    Ok(Report { rows: rows.into(), start, waiting, machine: machine::describe() })
}

/// Programs that wait: how many, and MiB of the server before and after.
async fn waiting(toolkeep: &Toolkeep, door: &mut Door) -> Result<(usize, f64, f64), String> {
    let code = "before = calculate('1')\nwrite_file(path='a', content='b')\nbefore";
    let pid = toolkeep.part.pid();
    let before = machine::memory(pid).0;
    for n in 0..WAITING {
        let answer = door.post("/v1/programs", &json!({ "code": code })).await?;
        if answer.get("status").and_then(Value::as_str) != Some("pending_approval") {
            return Err(format!("program {n} does not wait: {answer}"));
        }
    }
    Ok((WAITING, before, machine::memory(pid).0))
}

/// CPU time of a process and all below it.
fn tree(pid: u32) -> Duration {
    let below = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = below.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let pids: Vec<u32> = children
        .flat_map(|it| it.split_whitespace().filter_map(|it| it.parse().ok()).collect::<Vec<_>>())
        .collect();
    machine::cpu(pid) + pids.into_iter().map(tree).sum::<Duration>()
}

/// One connection that is kept.
struct Door {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    key: String,
}

impl Door {
    async fn open(toolkeep: &Toolkeep, folder: &Path) -> Result<Self, String> {
        let key = fs::read_to_string(folder.join("data/agent.key")).map_err(|e| e.to_string())?;
        let address = toolkeep.part.address;
        let sender = connect(address).await?;
        Ok(Self { sender, host: address.to_string(), key: key.trim().to_owned() })
    }

    async fn post(&mut self, path: &str, body: &Value) -> Result<Value, String> {
        let lost = |e: hyper::Error| format!("{path}: {e}");
        self.sender.ready().await.map_err(lost)?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(HOST, self.host.as_str())
            .header(CONTENT_TYPE, "application/json")
            .header(AUTHORIZATION, format!("Bearer {}", self.key))
            .body(Full::new(Bytes::from(body.to_string())))
            .map_err(|e| e.to_string())?;
        let answer = self.sender.send_request(request).await.map_err(lost)?;
        let body = answer.into_body().collect().await.map_err(lost)?.to_bytes();
        serde_json::from_slice(&body).map_err(|e| format!("{path}: {e}"))
    }

    /// Does what the row says so often; how long each took.
    async fn did(&mut self, row: &Row, times: usize) -> Result<Vec<Duration>, String> {
        let mut took = Vec::with_capacity(times);
        for _ in 0..times {
            let begun = Instant::now();
            if let Some(code) = &row.code {
                let answer = self.post("/v1/programs", &json!({ "code": code })).await?;
                if answer.get("status").and_then(Value::as_str) != Some("succeeded") {
                    return Err(format!("the program answers {answer}"));
                }
            } else {
                let call = json!({ "tool": "calculate", "arguments": { "expression": "6 * 7" } });
                for _ in 0..CALLS {
                    let answer = self.post("/v1/calls", &call).await?;
                    if answer.get("result") != Some(&json!(42)) {
                        return Err(format!("the call answers {answer}"));
                    }
                }
            }
            took.push(begun.elapsed());
        }
        Ok(took)
    }
}
