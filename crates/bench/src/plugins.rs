//! `bench plugins`: what a call of a plugin costs above its function, through the whole gateway, and how
//! soon a change of its folder is met.
//!
//! The function tells how long it took itself; what a call takes beside that is the gateway's, the cage's
//! and the lines' between them.

mod report;
mod stage;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value, json};

use crate::goal;
use crate::machine;
use crate::options::Flags;
use crate::toolkeep::Toolkeep;
use crate::tools::client::Client;
use report::{Report, Row};

pub(crate) const USAGE: &str = "usage: cargo xtask bench plugins [--write]\n\n  --write   also write the report, docs/reference/benchmarks-plugins.md";

/// Warm calls of each kind, plugins whose first call counts, processes that die, and changes.
const CALLS: usize = 1_000;
const PLUGINS: usize = 20;
const DEATHS: usize = 20;
const CHANGES: usize = 40;
/// How long something may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// Measures, prints, and writes where asked.
pub(crate) async fn run(flags: &[&str]) -> Result<(), String> {
    let Flags { binary, file } = Flags::read(flags).ok_or(USAGE)?;
    let folder = std::env::temp_dir().join(format!("toolkeep-plugins-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|e| format!("`{}`: {e}", folder.display()))?;
    let measured = measured(Path::new(binary), &folder).await;
    drop(fs::remove_dir_all(&folder));
    let text = Report { rows: measured?, machine: machine::describe() }.to_string();
    goal::publish(&text, file)
}

async fn measured(binary: &Path, folder: &Path) -> Result<Vec<Row>, String> {
    let plugins = folder.join("plugins");
    stage::written(&plugins, PLUGINS).map_err(|e| e.to_string())?;
    let configuration =
        format!("version: 1\nplugins: {{ folders: [\"{}\"] }}\n", plugins.display());
    let toolkeep = Toolkeep::greeted(Command::new(binary), &configuration, folder).await?;
    let client = Client::of(toolkeep.part.address, folder)?;
    let last = format!("first_{}.work", PLUGINS - 1);
    for tool in [last.as_str(), "lines.work", "server.work", "python.work"] {
        there(&client, tool).await?;
    }
    let mut rows = vec![first(&client).await?];
    for (plugin, kind) in [("python", "python"), ("lines", "command"), ("server", "mcp")] {
        let what = format!("kind `{kind}`, a function that returns at once, warm");
        rows.push(warm(&client, (plugin, 0), (what, kind == "python")).await?);
    }
    let what = "kind `python`, a function that works, warm".to_owned();
    rows.push(warm(&client, ("python", 20_000), (what, true)).await?);
    rows.push(deaths(&client).await?);
    rows.push(changes(&client, &plugins).await?);
    Ok(rows)
}

fn body(tool: &str, loops: u64) -> Bytes {
    Bytes::from(json!({"tool": tool, "arguments": {"loops": loops}}).to_string())
}

/// Waits for a tool, without calling it.
async fn there(client: &Client, tool: &str) -> Result<(), String> {
    let begun = Instant::now();
    while !client.shows(tool).await? {
        if begun.elapsed() > PATIENCE {
            return Err(format!("`{tool}` is not offered"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// One call: all that it took, and what its function took of that.
async fn called(client: &Client, body: Bytes) -> Result<(Duration, Duration), String> {
    let begun = Instant::now();
    let answer = client.call(body).await?;
    let all = begun.elapsed();
    let took = answer
        .pointer("/result/took")
        .or_else(|| answer.pointer("/result/structuredContent/took"))
        .and_then(Value::as_f64)
        .ok_or_else(|| format!("a call answers {answer}"))?;
    Ok((all, Duration::from_secs_f64(took)))
}

/// The first call of each of many plugins.
async fn first(client: &Client) -> Result<Row, String> {
    let mut times = Vec::new();
    for plugin in 0..PLUGINS {
        times.push(called(client, body(&format!("first_{plugin}.work"), 0)).await?.0);
    }
    let what = format!("the first call of a plugin, of {PLUGINS}");
    Ok(Row::new(what, times, Some(Duration::from_millis(150))))
}

async fn warm(
    client: &Client,
    (plugin, loops): (&str, u64),
    (what, judged): (String, bool),
) -> Result<Row, String> {
    let body = body(&format!("{plugin}.work"), loops);
    for _ in 0..20 {
        called(client, body.clone()).await?;
    }
    let (mut above, mut function) = (Vec::new(), Vec::new());
    for _ in 0..CALLS {
        let (all, took) = called(client, body.clone()).await?;
        above.push(all.saturating_sub(took));
        function.push(took);
    }
    Ok(Row::new(what, above, judged.then_some(Duration::from_millis(1))).of(function))
}

/// The call after the one in which the process died: it waits for another one.
async fn deaths(client: &Client) -> Result<Row, String> {
    let mut times = Vec::new();
    for _ in 0..DEATHS {
        let dies = json!({"tool": "python.die", "arguments": {}}).to_string();
        if let Ok(answer) = client.call(Bytes::from(dies)).await
            && answer.get("is_error") != Some(&json!(true))
        {
            return Err(format!("a process that dies answers {answer}"));
        }
        times.push(called(client, body("python.work", 0)).await?.0);
    }
    Ok(Row::new("the call after its process died", times, Some(Duration::from_millis(150))))
}

/// From a change of the code, found by watching, to the first answer of the new one.
async fn changes(client: &Client, plugins: &Path) -> Result<Row, String> {
    let mut times = Vec::new();
    for version in 1..=CHANGES {
        stage::code(&plugins.join("python"), version).map_err(|e| e.to_string())?;
        let begun = Instant::now();
        loop {
            let answer = client.call(body("python.work", 0)).await?;
            if answer.pointer("/result/version") == Some(&json!(version)) {
                break;
            }
            if begun.elapsed() > PATIENCE {
                return Err("a change is not met".to_owned());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        times.push(begun.elapsed());
    }
    Ok(Row::new(
        "from an edit of the code to its first answer, by watching",
        times,
        Some(Duration::from_secs(2)),
    ))
}
