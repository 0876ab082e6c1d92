//! `bench plugins`: overhead of a plugin call through the whole gateway, and the time until a
//! changed plugin is active.
//!
//! The function reports its own duration. The rest is the cost of the gateway, the sandbox and the
//! pipes.

mod plugin_fixtures;
mod report;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value, json};

use crate::options::ReportFlags;
use crate::system_stats;
use crate::target_check;
use crate::toolkeep_process::ToolkeepServer;
use crate::tools::rest_client::TwoKeyClient;
use report::{PluginReport, PluginRow};

pub(crate) const USAGE: &str = "usage: cargo xtask bench plugins [--write]\n\n  --write   also write the report, docs/reference/benchmarks-plugins.md";

/// Number of warm calls of each kind.
const WARM_CALLS: usize = 1_000;
const PLUGIN_COUNT: usize = 20;
const DEATH_COUNT: usize = 20;
const CHANGE_COUNT: usize = 40;
/// Longest time for any awaited event.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs the benchmark, prints the report and writes it if requested.
pub(crate) async fn run_plugin_bench(flags: &[&str]) -> Result<(), String> {
    let ReportFlags { binary, file } = ReportFlags::from_words(flags).ok_or(USAGE)?;
    let folder = std::env::temp_dir().join(format!("toolkeep-plugins-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|e| format!("`{}`: {e}", folder.display()))?;
    let measured = measure_plugins(Path::new(binary), &folder).await;
    drop(fs::remove_dir_all(&folder));
    let text =
        PluginReport { rows: measured?, machine: system_stats::describe_machine() }.to_string();
    target_check::publish_report(&text, file)
}

async fn measure_plugins(binary: &Path, folder: &Path) -> Result<Vec<PluginRow>, String> {
    let plugins = folder.join("plugins");
    plugin_fixtures::write_plugins(&plugins, PLUGIN_COUNT).map_err(|e| e.to_string())?;
    let configuration =
        format!("version: 1\nplugins: {{ folders: [\"{}\"] }}\n", plugins.display());
    let toolkeep =
        ToolkeepServer::start_and_connect(Command::new(binary), &configuration, folder).await?;
    let client = TwoKeyClient::with_keys(toolkeep.process.address, folder)?;
    let last = format!("first_{}.work", PLUGIN_COUNT - 1);
    for tool in [last.as_str(), "lines.work", "server.work", "python.work"] {
        wait_for_tool(&client, tool).await?;
    }
    let mut rows = vec![measure_first_calls(&client).await?];
    for (plugin, kind) in [("python", "python"), ("lines", "command"), ("server", "mcp")] {
        let what = format!("kind `{kind}`, a function that returns at once, warm");
        rows.push(measure_warm_calls(&client, (plugin, 0), (what, kind == "python")).await?);
    }
    let what = "kind `python`, a function that works, warm".to_owned();
    rows.push(measure_warm_calls(&client, ("python", 20_000), (what, true)).await?);
    rows.push(measure_restarts(&client).await?);
    rows.push(measure_reloads(&client, &plugins).await?);
    Ok(rows)
}

fn call_body(tool: &str, loops: u64) -> Bytes {
    Bytes::from(json!({"tool": tool, "arguments": {"loops": loops}}).to_string())
}

/// Waits until a tool is listed, without calling it.
async fn wait_for_tool(client: &TwoKeyClient, tool: &str) -> Result<(), String> {
    let begun = Instant::now();
    while !client.has_tool(tool).await? {
        if begun.elapsed() > WAIT_TIMEOUT {
            return Err(format!("`{tool}` is not offered"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Makes one call; returns its total time and the time of its function.
async fn time_call(client: &TwoKeyClient, body: Bytes) -> Result<(Duration, Duration), String> {
    let begun = Instant::now();
    let answer = client.call_tool(body).await?;
    let all = begun.elapsed();
    let took = answer
        .pointer("/result/took")
        .or_else(|| answer.pointer("/result/structuredContent/took"))
        .and_then(Value::as_f64)
        .ok_or_else(|| format!("a call answers {answer}"))?;
    Ok((all, Duration::from_secs_f64(took)))
}

/// Measures the first call of each of many plugins.
async fn measure_first_calls(client: &TwoKeyClient) -> Result<PluginRow, String> {
    let mut times = Vec::new();
    for plugin in 0..PLUGIN_COUNT {
        times.push(time_call(client, call_body(&format!("first_{plugin}.work"), 0)).await?.0);
    }
    let what = format!("the first call of a plugin, of {PLUGIN_COUNT}");
    Ok(PluginRow::new(what, times, Some(Duration::from_millis(150))))
}

async fn measure_warm_calls(
    client: &TwoKeyClient,
    (plugin, loops): (&str, u64),
    (what, judged): (String, bool),
) -> Result<PluginRow, String> {
    let body = call_body(&format!("{plugin}.work"), loops);
    for _ in 0..20 {
        time_call(client, body.clone()).await?;
    }
    let (mut above, mut function) = (Vec::new(), Vec::new());
    for _ in 0..WARM_CALLS {
        let (all, took) = time_call(client, body.clone()).await?;
        above.push(all.saturating_sub(took));
        function.push(took);
    }
    Ok(PluginRow::new(what, above, judged.then_some(Duration::from_millis(1)))
        .with_function(function))
}

/// Measures the call after a process died, which waits for a new process.
async fn measure_restarts(client: &TwoKeyClient) -> Result<PluginRow, String> {
    let mut times = Vec::new();
    for _ in 0..DEATH_COUNT {
        let dies = json!({"tool": "python.die", "arguments": {}}).to_string();
        if let Ok(answer) = client.call_tool(Bytes::from(dies)).await
            && answer.get("is_error") != Some(&json!(true))
        {
            return Err(format!("a process that dies answers {answer}"));
        }
        times.push(time_call(client, call_body("python.work", 0)).await?.0);
    }
    Ok(PluginRow::new("the call after its process died", times, Some(Duration::from_millis(150))))
}

/// Measures the time from an edit of the code to the first answer of the new version.
async fn measure_reloads(client: &TwoKeyClient, plugins: &Path) -> Result<PluginRow, String> {
    let mut times = Vec::new();
    for version in 1..=CHANGE_COUNT {
        plugin_fixtures::write_code(&plugins.join("python"), version).map_err(|e| e.to_string())?;
        let begun = Instant::now();
        loop {
            let answer = client.call_tool(call_body("python.work", 0)).await?;
            if answer.pointer("/result/version") == Some(&json!(version)) {
                break;
            }
            if begun.elapsed() > WAIT_TIMEOUT {
                return Err("a change is not met".to_owned());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        times.push(begun.elapsed());
    }
    Ok(PluginRow::new(
        "from an edit of the code to its first answer, by watching",
        times,
        Some(Duration::from_secs(2)),
    ))
}
