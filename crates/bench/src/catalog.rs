//! `bench catalog`: effect of large catalogs on concurrent calls.
//!
//! Tool files have 10,000 tools each. All pages are requested, first with a cold and then with a
//! warm cache, while one caller keeps calling an upstream tool. The first list after a change is
//! measured too.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::options;
use crate::target::HelperProcess;
use crate::timed_request::{TimedRequest, open_connection};
use crate::toolkeep_process::{SOURCE_NAME, ToolkeepServer};

pub(crate) const USAGE: &str = "usage: bench catalog --toolkeep PATH [--tools N]";

/// Maximum number of tools in one file.
const MAX_FILE_TOOLS: usize = 10_000;
/// Longest time until a changed file is noticed.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs the benchmark and prints the figures.
pub(crate) async fn run_catalog_bench(flags: &[&str]) -> Result<(), String> {
    let (binary, tools) = options::binary_and_tools(flags, 100_000).ok_or(USAGE)?;
    let folder = create_temp_folder()?;
    let done = measure_catalog(binary, &folder, tools).await;
    drop(fs::remove_dir_all(&folder));
    done
}

/// Creates a temporary working folder.
pub(crate) fn create_temp_folder() -> Result<std::path::PathBuf, String> {
    let folder = std::env::temp_dir().join(format!("toolkeep-catalog-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|e| format!("`{}`: {e}", folder.display()))?;
    Ok(folder)
}

async fn measure_catalog(binary: &Path, folder: &Path, tools: usize) -> Result<(), String> {
    let upstream = HelperProcess::start_helper(&["upstream", "2"])?;
    let mut configuration = format!(
        "version: 1\nsources:\n  - name: {SOURCE_NAME}\n    mcp: {{ url: \"http://{}/mcp\" }}\n    read_only: [echo]\n",
        upstream.address
    );
    for (number, from) in (0..tools).step_by(MAX_FILE_TOOLS).enumerate() {
        let file = folder.join(format!("tools-{number}.json"));
        ToolFileDefinitions(from..(from + MAX_FILE_TOOLS).min(tools)).write_file(&file)?;
        let line = format!("  - name: big{number}\n    tools: \"{}\"\n", file.display());
        configuration.push_str(&line);
    }
    let begun = Instant::now();
    let toolkeep =
        ToolkeepServer::start_with_config(Command::new(binary), &configuration, folder).await?;
    while fetch_pages(&toolkeep).await?.1 < tools {
        if begun.elapsed() > CHANGE_TIMEOUT {
            return Err("the tools are not listed; look at `toolkeep source list`".to_owned());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!("{tools} tools: all listed {} after the start", format_ms(begun.elapsed()));
    let call = TimedRequest::tool_call(toolkeep.process.address, toolkeep.tool_name("echo")?);
    let call = call.with_headers(&toolkeep.headers);
    let alone = tokio::time::sleep(Duration::from_secs(3));
    println!("calls alone: {}", call_during(&call, alone).await?.1);
    let (paged, pauses) = call_during(&call, fetch_pages(&toolkeep)).await?;
    let (count, listed, slowest) = paged?;
    println!(
        "{count} pages of {listed} tools, the slowest in {}; calls beside: {pauses}",
        format_ms(slowest)
    );
    let file = folder.join("tools-0.json");
    let change = async {
        ToolFileDefinitions(1..MAX_FILE_TOOLS.min(tools)).write_file(&file)?;
        let (first, seen) = wait_for_change(&toolkeep).await?;
        let (count, _, slowest) = fetch_pages(&toolkeep).await?;
        Ok::<_, String>((first, seen, count, slowest))
    };
    let (change, pauses) = call_during(&call, change).await?;
    let (first, seen, count, slowest) = change?;
    println!(
        "a tool goes: seen after {}, first list of the new catalog in {}",
        format_ms(seen),
        format_ms(first)
    );
    println!(
        "and its {count} pages, the slowest in {}; calls beside: {pauses}",
        format_ms(slowest)
    );
    Ok(())
}

/// A tool file with the tools of these numbers.
pub(crate) struct ToolFileDefinitions(pub(crate) Range<usize>);

impl ToolFileDefinitions {
    /// Replaces `file` atomically: YAML as a person would write it, or JSON.
    pub(crate) fn write_file(self, file: &Path) -> Result<(), String> {
        let text = if file.extension().is_some_and(|it| it == "yaml") {
            format!("tools:\n{}", self.0.map(tool_yaml).collect::<String>())
        } else {
            json!({"tools": self.0.map(tool_json).collect::<Vec<_>>()}).to_string()
        };
        let whole = file.with_extension("new");
        let failed = |e: std::io::Error| format!("`{}`: {e}", file.display());
        fs::write(&whole, text).map_err(failed)?;
        fs::rename(&whole, file).map_err(failed)
    }
}

const DESCRIPTION: &str = "One of very many tools that are there to be listed.";

fn tool_json(number: usize) -> Value {
    json!({
        "name": format!("tool_{number}"),
        "type": "function",
        "handler": "mock",
        "description": DESCRIPTION,
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
        "implementation": {"type": "mock", "mock_response": "none"},
    })
}

fn tool_yaml(number: usize) -> String {
    format!(
        "  - name: tool_{number}\n    type: function\n    handler: mock\n    description: {DESCRIPTION}\n    \
         parameters:\n      type: object\n      properties:\n        text:\n          type: string\n    \
         implementation:\n      type: mock\n      mock_response: none\n"
    )
}

/// Fetches every page; returns the number of pages and tools and the slowest answer.
pub(crate) async fn fetch_pages(
    toolkeep: &ToolkeepServer,
) -> Result<(usize, usize, Duration), String> {
    let mut connection = open_connection(toolkeep.process.address).await?;
    let (mut pages, mut tools, mut slowest, mut cursor) = (0, 0, Duration::ZERO, None);
    loop {
        let page = TimedRequest::tool_page(toolkeep.process.address, cursor.as_deref());
        let page = page.with_headers(&toolkeep.headers);
        let sent = Instant::now();
        let answer = page.send_on(&mut connection).await?;
        slowest = slowest.max(sent.elapsed());
        let answer = answer.parse_json()?;
        let result = answer.get("result").ok_or_else(|| format!("no list: {answer}"))?;
        pages += 1;
        tools += result.get("tools").and_then(Value::as_array).map_or(0, Vec::len);
        cursor = result.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
        if cursor.is_none() {
            return Ok((pages, tools, slowest));
        }
    }
}

/// Runs `work` while a caller keeps calling; returns its result and the caller's latencies.
async fn call_during<T>(
    call: &TimedRequest,
    work: impl Future<Output = T>,
) -> Result<(T, String), String> {
    let (stop, mut stopped) = watch::channel(false);
    let (call, mut taken) = (call.clone(), Vec::new());
    let calling = tokio::spawn(async move {
        let mut connection = open_connection(call.address).await?;
        while !*stopped.borrow_and_update() {
            let sent = Instant::now();
            let answer = call.send_on(&mut connection).await?;
            taken.push(sent.elapsed());
            if !call.is_expected(&answer) {
                return Err(answer.body_start());
            }
        }
        taken.sort();
        let at = |share: usize| taken.get(taken.len() * share / 1_000).copied().unwrap_or_default();
        let most = taken.last().copied().unwrap_or_default();
        Ok(format!(
            "{} calls, p50 {}, p99 {}, longest {}",
            taken.len(),
            format_ms(at(500)),
            format_ms(at(990)),
            format_ms(most)
        ))
    });
    let done = work.await;
    // Fails only if the caller has already ended; the next line reports why.
    stop.send(true).ok();
    Ok((done, calling.await.map_err(|e| e.to_string())??))
}

/// Waits until the first page changes; returns the latency of its first answer and the total wait.
async fn wait_for_change(toolkeep: &ToolkeepServer) -> Result<(Duration, Duration), String> {
    let address = toolkeep.process.address;
    let mut connection = open_connection(address).await?;
    let first = TimedRequest::tool_list(address).with_headers(&toolkeep.headers);
    let old = first.send_on(&mut connection).await?.body;
    let begun = Instant::now();
    while begun.elapsed() < CHANGE_TIMEOUT {
        let sent = Instant::now();
        let answer = first.send_on(&mut connection).await?;
        let took = sent.elapsed();
        if answer.body != old {
            return Ok((took, begun.elapsed()));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Err(format!("a change was not seen within {} s", CHANGE_TIMEOUT.as_secs()))
}

fn format_ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1_000.0)
}
