//! `bench programs`: ten calls in one program compared with ten REST calls, the start time of a
//! program, and the memory of many waiting programs.

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

use crate::options::ReportFlags;
use crate::system_stats;
use crate::target_check;
use crate::timed_request::open_connection;
use crate::toolkeep_process::ToolkeepServer;
use report::{ProgramReport, ProgramRow};

pub(crate) const USAGE: &str = "usage: cargo xtask bench programs [--write]\n\n  --write   also write the report, docs/reference/benchmarks-programs.md";

/// Number of calls in one program.
const CALLS_PER_PROGRAM: usize = 10;
const RUNS_PER_SLICE: usize = 100;
const SLICE_COUNT: usize = 10;
/// Number of programs that wait at the same time.
const WAITING_PROGRAMS: usize = 1_000;
const CONFIGURATION: &str = "version: 1\napprovals: { pending: 10000, per_minute: 10000 }\n";

/// Runs the benchmark, prints the report and writes it if requested.
pub(crate) async fn run_program_bench(flags: &[&str]) -> Result<(), String> {
    let ReportFlags { binary, file } = ReportFlags::from_words(flags).ok_or(USAGE)?;
    let folder = std::env::temp_dir().join(format!("toolkeep-programs-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|e| format!("`{}`: {e}", folder.display()))?;
    let measured = measure_programs(Path::new(binary), &folder).await;
    drop(fs::remove_dir_all(&folder));
    let text = measured?.to_string();
    target_check::publish_report(&text, file)
}

async fn measure_programs(binary: &Path, folder: &Path) -> Result<ProgramReport, String> {
    let toolkeep =
        ToolkeepServer::start_and_connect(Command::new(binary), CONFIGURATION, folder).await?;
    let mut connection = RestConnection::connect(&toolkeep, folder).await?;
    let lines: Vec<_> =
        (0..CALLS_PER_PROGRAM).map(|n| format!("a{n} = calculate('6 * 7')")).collect();
    let plain = lines.join("\n");
    let looped = format!("for n in range({CALLS_PER_PROGRAM}):\n    calculate(f'6 * {{n}}')\n");
    let mut rows = [
        ProgramRow::new("ten calls at the REST door, one after the other", None),
        ProgramRow::new("one program of ten plain calls (one wave)", Some(plain)),
        ProgramRow::new("one program that calls ten times in a loop", Some(looped)),
    ];
    for row in &rows {
        connection.time_runs(row, 20).await?;
    }
    for _ in 0..SLICE_COUNT {
        for row in &mut rows {
            let before = (process_tree_cpu(toolkeep.process.pid()), system_stats::system_busy());
            let times = connection.time_runs(row, RUNS_PER_SLICE).await?;
            let after = (process_tree_cpu(toolkeep.process.pid()), system_stats::system_busy());
            row.add_times(
                times,
                after.0.saturating_sub(before.0),
                after.1.saturating_sub(before.1),
            );
        }
    }
    let mut start = ProgramRow::new("a program without calls, warm", Some("1".to_owned()));
    start.add_times(connection.time_runs(&start, 500).await?, Duration::ZERO, Duration::ZERO);
    let waiting = measure_waiting(&toolkeep, &mut connection).await?;
    Ok(ProgramReport {
        rows: rows.into(),
        start,
        waiting,
        machine: system_stats::describe_machine(),
    })
}

/// Measures waiting programs: their number and the server's memory in MiB before and after.
async fn measure_waiting(
    toolkeep: &ToolkeepServer,
    door: &mut RestConnection,
) -> Result<(usize, f64, f64), String> {
    let code = "before = calculate('1')\nwrite_file(path='a', content='b')\nbefore";
    let pid = toolkeep.process.pid();
    let before = system_stats::process_memory(pid).0;
    for n in 0..WAITING_PROGRAMS {
        let answer = door.post_json("/v1/programs", &json!({ "code": code })).await?;
        if answer.get("status").and_then(Value::as_str) != Some("pending_approval") {
            return Err(format!("program {n} does not wait: {answer}"));
        }
    }
    Ok((WAITING_PROGRAMS, before, system_stats::process_memory(pid).0))
}

/// Returns the CPU time of a process and its descendants.
fn process_tree_cpu(pid: u32) -> Duration {
    let below = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = below.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let pids: Vec<u32> = children
        .flat_map(|it| it.split_whitespace().filter_map(|it| it.parse().ok()).collect::<Vec<_>>())
        .collect();
    system_stats::process_cpu(pid) + pids.into_iter().map(process_tree_cpu).sum::<Duration>()
}

/// A kept-alive connection to the REST interface.
struct RestConnection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    key: String,
}

impl RestConnection {
    async fn connect(toolkeep: &ToolkeepServer, folder: &Path) -> Result<Self, String> {
        let key = fs::read_to_string(folder.join("data/agent.key")).map_err(|e| e.to_string())?;
        let address = toolkeep.process.address;
        let sender = open_connection(address).await?;
        Ok(Self { sender, host: address.to_string(), key: key.trim().to_owned() })
    }

    async fn post_json(&mut self, path: &str, body: &Value) -> Result<Value, String> {
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

    /// Runs the row's program or calls `times` times and returns each duration.
    async fn time_runs(&mut self, row: &ProgramRow, times: usize) -> Result<Vec<Duration>, String> {
        let mut took = Vec::with_capacity(times);
        for _ in 0..times {
            let begun = Instant::now();
            if let Some(code) = &row.code {
                let answer = self.post_json("/v1/programs", &json!({ "code": code })).await?;
                if answer.get("status").and_then(Value::as_str) != Some("succeeded") {
                    return Err(format!("the program answers {answer}"));
                }
            } else {
                let call = json!({ "tool": "calculate", "arguments": { "expression": "6 * 7" } });
                for _ in 0..CALLS_PER_PROGRAM {
                    let answer = self.post_json("/v1/calls", &call).await?;
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
