//! `bench console`: pages of the web console with much of everything, and calls beside a live tail.
//!
//! The server has 10,000 tools, 500 sources, 1,000 pending calls and a million records. Each page is
//! requested on one connection, one after the other.

mod browser_session;
mod first_paint;
mod live_tail;
mod report;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::catalog::ToolFileDefinitions;
use crate::histogram::LatencyHistogram;
use crate::load_generator::{SliceEnd, run_slice};
use crate::system_stats;
use crate::timed_request::{ExpectedBody, TimedRequest};
use crate::toolkeep_process::ToolkeepServer;
use browser_session::BrowserSession;
use live_tail::TailComparison;
use report::ConsoleReport;

const USAGE: &str = "usage: bench console --toolkeep PATH [--write FILE]";

const TOOLS: usize = 10_000;
/// Sources beside the one with the tools and the built-in one.
const SMALL_SOURCES: usize = 498;
const PENDING_CALLS: usize = 1_000;
const RECORDS: u64 = 1_000_000;
/// Concurrent callers while records are made.
const CALLERS: usize = 16;
/// Requests of each page.
const REQUESTS: usize = 300;
/// Longest time until all sources are listed.
const LIST_TIMEOUT: Duration = Duration::from_mins(2);

/// The pages that are measured.
const PAGES: [&str; 16] = [
    "/ui",
    "/ui/approvals",
    "/ui/calls",
    "/ui/calls/live",
    "/ui/calls?status=failed",
    "/ui/calls?tool=held.tool_0",
    "/ui/sources",
    "/ui/pins",
    "/ui/access",
    "/ui/access/tools",
    "/ui/access/personas",
    "/ui/access/orgs",
    "/ui/record",
    "/ui/tools",
    "/ui/tools?q=tool_99",
    "/ui/nodes",
];

/// Times and size of one page.
pub(crate) struct PageTimes {
    path: &'static str,
    bytes: usize,
    latencies: LatencyHistogram,
}

/// Runs the benchmark, prints the report, and writes it where `--write` says.
pub(crate) async fn run_console_bench(flags: &[&str]) -> Result<(), String> {
    let (mut binary, mut write) = (None, None);
    for pair in flags.chunks(2) {
        match pair {
            ["--toolkeep", path] => binary = Some(PathBuf::from(path)),
            ["--write", path] => write = Some(PathBuf::from(path)),
            _ => return Err(USAGE.to_owned()),
        }
    }
    let binary = binary.ok_or(USAGE)?;
    let folder = std::env::temp_dir().join(format!("toolkeep-console-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|e| format!("`{}`: {e}", folder.display()))?;
    let measured = measure(&binary, &folder).await;
    drop(fs::remove_dir_all(&folder));
    let report = measured?.to_string();
    println!("{report}");
    match write {
        Some(file) => fs::write(&file, report).map_err(|e| format!("`{}`: {e}", file.display())),
        None => Ok(()),
    }
}

async fn measure(binary: &Path, folder: &Path) -> Result<ConsoleReport, String> {
    let configuration = write_configuration(folder)?;
    let server =
        ToolkeepServer::start_and_connect(Command::new(binary), &configuration, folder).await?;
    let owner = fs::read_to_string(folder.join("data/owner.key")).map_err(|e| e.to_string())?;
    let mut session = BrowserSession::sign_in(server.process.address, owner.trim()).await?;
    wait_for_sources(&mut session).await?;
    println!("{PENDING_CALLS} pending calls");
    make_pending_calls(&server).await?;
    println!("{RECORDS} records");
    make_records(&server).await?;
    let mut pages = Vec::new();
    for path in PAGES {
        pages.push(time_page(&mut session, path).await?);
        println!("{path}");
    }
    println!("first contentful paint");
    let paints = first_paint::measure_paints(&session, &PAGES)?;
    println!("calls beside a live tail");
    let tail = TailComparison::measure(&server, &session).await?;
    let memory = system_stats::process_memory(server.process.pid());
    Ok(ConsoleReport { pages, paints, tail, memory, machine: system_stats::describe_machine() })
}

/// Writes the tool files and returns the configuration.
fn write_configuration(folder: &Path) -> Result<String, String> {
    let mut configuration = "version: 1\n\
        approvals: { pending: 10000, per_minute: 10000 }\n\
        limits: { calls: 1024, calls_per_key: 1024, calls_per_key_and_source: 1024 }\n\
        policy: { rules: [{ name: ask, effect: hold, tools: ['source:held'] }] }\n\
        sources:\n"
        .to_owned();
    let mut add = |name: &str, tools: usize| {
        let file = folder.join(format!("{name}.json"));
        ToolFileDefinitions(0..tools).write_file(&file)?;
        let lines = format!("  - name: {name}\n    tools: \"{}\"\n", file.display());
        configuration.push_str(&lines);
        Ok::<_, String>(())
    };
    add("many", TOOLS)?;
    add("held", 1)?;
    for number in 0..SMALL_SOURCES {
        add(&format!("small{number}"), 1)?;
    }
    Ok(configuration)
}

async fn wait_for_sources(session: &mut BrowserSession) -> Result<(), String> {
    let begun = Instant::now();
    while begun.elapsed() < LIST_TIMEOUT {
        let page = session.get("/ui/sources").await?;
        if !String::from_utf8_lossy(&page.body).contains("starting") {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Err("the sources are not listed".to_owned())
}

/// A call of a tool as an MCP client makes it.
fn tool_call(server: &ToolkeepServer, tool: &str, arguments: &serde_json::Value) -> TimedRequest {
    let params = json!({"name": tool, "arguments": arguments});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    TimedRequest::from_json_rpc(server.process.address, &body, ExpectedBody::Anything)
        .with_headers(&server.headers)
}

async fn make_pending_calls(server: &ToolkeepServer) -> Result<(), String> {
    let key = server.headers.first().map(|(_, value)| value.clone()).unwrap_or_default();
    for number in 0..PENDING_CALLS {
        let body = json!({"tool": "held.tool_0", "arguments": {"text": format!("call {number}")}});
        let status =
            browser_session::post_json(server.process.address, "/v1/calls", &key, &body).await?;
        if status != http::StatusCode::ACCEPTED {
            return Err(format!("a call that should wait got {status}"));
        }
    }
    Ok(())
}

/// Makes calls that only compute, each with two records.
async fn make_records(server: &ToolkeepServer) -> Result<(), String> {
    let call = tool_call(server, "calculator", &json!({"expression": "6*7"}));
    let calls = RECORDS / 2 / CALLERS as u64;
    let slice = run_slice(&call, CALLERS, SliceEnd::Calls(calls)).await?;
    if slice.failures > 0 {
        return Err(format!("{} of {} calls failed", slice.failures, slice.calls));
    }
    Ok(())
}

async fn time_page(session: &mut BrowserSession, path: &'static str) -> Result<PageTimes, String> {
    let mut times = PageTimes { path, bytes: 0, latencies: LatencyHistogram::default() };
    for _ in 0..REQUESTS {
        let begun = Instant::now();
        let page = session.get(path).await?;
        times.latencies.record_latency(begun.elapsed());
        times.bytes = times.bytes.max(page.body.len());
    }
    Ok(times)
}
