//! `bench tools`: what calls of built-in tools take, from the request to the whole answer, beside Python
//! that does the same in the same run; and what a server takes of memory before the first call.
//!
//! Of Python the reading of the arguments and the writing of the answer count, its start does not.

pub(crate) mod client;
mod report;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value, json};

use crate::goal;
use crate::machine;
use crate::options::Flags;
use crate::toolkeep::Toolkeep;
use client::Client;
use report::{Report, Row};

pub(crate) const USAGE: &str = "usage: cargo xtask bench tools [--write]\n\n  --write   also write the report, docs/reference/benchmarks-tools.md";

/// Bytes of the CSV, and rows of the table.
const CSV: usize = 50 << 20;
const ROWS: usize = 1_000_000;
/// Bytes of the file.
const FILE: usize = 10_000_000;
/// Times that what is large is done, and what is small; the median counts.
const LARGE: usize = 5;
const SMALL: usize = 101;
/// What Python does.
const AUTHORITY: &str = include_str!("tools/authority.py");
/// How long the server is left alone before its memory is looked at.
const REST: Duration = Duration::from_secs(3);

/// Measures, prints, and writes where asked.
pub(crate) async fn run(flags: &[&str]) -> Result<(), String> {
    let Flags { binary, file } = Flags::read(flags).ok_or(USAGE)?;
    let folder = std::env::temp_dir().join(format!("toolkeep-tools-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|e| format!("`{}`: {e}", folder.display()))?;
    let measured = measured(Path::new(binary), &folder).await;
    drop(fs::remove_dir_all(&folder));
    let text = Report { rows: measured?, machine: machine::describe() }.to_string();
    goal::publish(&text, file)
}

async fn measured(binary: &Path, folder: &Path) -> Result<Vec<Row>, String> {
    // Each call of a shell is held, approved and run.
    let configuration = "version: 1\napprovals: { per_minute: 1000 }\n";
    let toolkeep = Toolkeep::greeted(Command::new(binary), configuration, folder).await?;
    let client = Client::of(toolkeep.part.address, folder)?;
    let offered = client.offered().await?;
    tokio::time::sleep(REST).await;
    let idle = machine::memory(toolkeep.part.pid()).0;
    let mut rows = vec![Row::memory(offered, idle)];
    rows.push(csv(&client, folder).await?);
    for (what, query) in [
        ("loaded and counted", "select count(*) as n, sum(amount) as total from sales"),
        (
            "loaded and grouped",
            "select city, count(*) as n, sum(amount) as total from sales group by city order by total desc, city limit 3",
        ),
    ] {
        rows.push(sql(&client, folder, (what, query)).await?);
    }
    rows.push(small(&client, "python_eval", &json!({"expression": "sum(range(10))"})).await?);
    rows.push(shell(&client).await?);
    let content: String = "all work and no play makes a dull file\n".repeat(FILE / 39 + 1);
    let bytes = content.as_bytes().get(..FILE).unwrap_or_default();
    fs::write(folder.join("data/work/large"), bytes).map_err(|e| e.to_string())?;
    rows.push(small(&client, "read_file", &json!({"path": "large", "max_bytes": FILE})).await?);
    let after = machine::memory(toolkeep.part.pid());
    rows.push(Row::after(after.0, after.1));
    Ok(rows)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// What Python says of the arguments in `file`: the time, and where it wrote the answer.
fn authority(job: &str, file: &Path) -> Result<(Duration, PathBuf), String> {
    let answer = file.with_extension("answer");
    let ran = Command::new("python3").args(["-c", AUTHORITY, job]).arg(file).arg(&answer).output();
    let ran = ran.map_err(|e| format!("python3: {e}"))?;
    let told = String::from_utf8_lossy(&ran.stdout);
    let seconds: f64 = told
        .trim()
        .parse()
        .map_err(|_| format!("python3: {}", String::from_utf8_lossy(&ran.stderr)))?;
    Ok((Duration::from_secs_f64(seconds), answer))
}

/// Both in turn; the answers must be the same bytes.
async fn both(
    client: &Client,
    folder: &Path,
    (tool, args): (&str, String),
) -> Result<(Duration, Duration), String> {
    let file = folder.join("args.json");
    fs::write(&file, &args).map_err(|e| e.to_string())?;
    let body = Bytes::from(format!(r#"{{"tool":"{tool}","arguments":{args}}}"#));
    drop(args);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..LARGE {
        let begun = Instant::now();
        let answer = client.call(body.clone()).await?;
        ours.push(begun.elapsed());
        let (took, expected) = authority(tool, &file)?;
        theirs.push(took);
        let expected = fs::read(expected).map_err(|e| e.to_string())?;
        if client.whole(&answer).await? != expected {
            return Err(format!("{tool} and Python do not answer the same"));
        }
    }
    Ok((median(ours), median(theirs)))
}

async fn csv(client: &Client, folder: &Path) -> Result<Row, String> {
    let mut text = String::from("id,name,city,note,amount\n");
    let mut row = 0;
    while text.len() < CSV {
        let (city, cents) = (row % 97, row * 7 % 100);
        let _written = writeln!(
            text,
            "{row},person {row},city {city},\"a note, as \"\"it\"\" is\",{row}.{cents:02}"
        );
        row += 1;
    }
    let args = json!({"csv_content": text, "numbers": false}).to_string();
    let (ours, theirs) = both(client, folder, ("csv_to_json", args)).await?;
    let what = format!("`csv_to_json`, {} MB, {row} rows", text.len() >> 20);
    Ok(Row::beside(what, ours, theirs, 4.0))
}

async fn sql(client: &Client, folder: &Path, (what, query): (&str, &str)) -> Result<Row, String> {
    let mut tables = String::new();
    for n in 0..ROWS {
        let comma = if n == 0 { "" } else { "," };
        let (city, amount) = (n % 97, n * 7 % 1000);
        let _written =
            write!(tables, r#"{comma}{{"id":{n},"city":"city {city}","amount":{amount}.5}}"#);
    }
    let args = format!(r#"{{"query":"{query}","tables":{{"sales":[{tables}]}}}}"#);
    let size = args.len() >> 20;
    let (ours, theirs) = both(client, folder, ("sql_query", args)).await?;
    Ok(Row::beside(format!("`sql_query`, {ROWS} rows, {size} MB, {what}"), ours, theirs, 2.0))
}

async fn small(client: &Client, tool: &str, args: &Value) -> Result<Row, String> {
    let body = json!({"tool": tool, "arguments": args}).to_string();
    let body = Bytes::from(body);
    client.call(body.clone()).await?;
    let mut times = Vec::new();
    for _ in 0..SMALL {
        let begun = Instant::now();
        client.call(body.clone()).await?;
        times.push(begun.elapsed());
    }
    let (what, goal) = match tool {
        "read_file" => ("`read_file`, 10 MB", 30),
        _ => ("`python_eval`, a short expression, warm", 3),
    };
    Ok(Row::alone(what, median(times), Duration::from_millis(goal)))
}

/// The call of a command that a person has agreed to, from its going on to its answer.
async fn shell(client: &Client) -> Result<Row, String> {
    let body = json!({"tool": "run_shell", "arguments": {"command": "true"}}).to_string();
    let mut times = Vec::new();
    for _ in 0..SMALL {
        let held = client.call(body.clone().into()).await?;
        let id = held.get("call_id").and_then(Value::as_str).ok_or("run_shell is not held")?;
        client.approve(id).await?;
        let begun = Instant::now();
        let answer = client.resume(id).await?;
        times.push(begun.elapsed());
        if answer.pointer("/result/returncode") != Some(&json!(0)) {
            return Err(format!("run_shell: {answer}"));
        }
    }
    Ok(Row::alone("`run_shell`, `true`, approved", median(times), Duration::from_millis(15)))
}
