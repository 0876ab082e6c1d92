//! `bench tools`: calls of built-in tools compared with the same work in Python, and the memory of
//! an idle server.
//!
//! Python's time includes parsing the arguments and writing the answer, but not its start.

mod report;
pub(crate) mod rest_client;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value, json};

use crate::options::ReportFlags;
use crate::system_stats;
use crate::target_check;
use crate::toolkeep_process::ToolkeepServer;
use report::{ToolReport, ToolRow};
use rest_client::TwoKeyClient;

pub(crate) const USAGE: &str = "usage: cargo xtask bench tools [--write]\n\n  --write   also write the report, docs/reference/benchmarks-tools.md";

/// Size of the CSV text in bytes.
const CSV_BYTES: usize = 50 << 20;
const TABLE_ROWS: usize = 1_000_000;
/// Size of the file in bytes.
const FILE_BYTES: usize = 10_000_000;
/// Number of rounds for large inputs; the report shows the median.
const LARGE_ROUNDS: usize = 5;
const SMALL_ROUNDS: usize = 101;
/// The Python script of the comparison.
const PYTHON_SCRIPT: &str = include_str!("tools/authority.py");
/// Idle time of the server before its memory is measured.
const IDLE_TIME: Duration = Duration::from_secs(3);

/// Runs the benchmark, prints the report and writes it if requested.
pub(crate) async fn run_tool_bench(flags: &[&str]) -> Result<(), String> {
    let ReportFlags { binary, file } = ReportFlags::from_words(flags).ok_or(USAGE)?;
    let folder = std::env::temp_dir().join(format!("toolkeep-tools-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|e| format!("`{}`: {e}", folder.display()))?;
    let measured = measure_tools(Path::new(binary), &folder).await;
    drop(fs::remove_dir_all(&folder));
    let text =
        ToolReport { rows: measured?, machine: system_stats::describe_machine() }.to_string();
    target_check::publish_report(&text, file)
}

async fn measure_tools(binary: &Path, folder: &Path) -> Result<Vec<ToolRow>, String> {
    // Each call of the shell waits for approval, is approved and runs.
    let configuration = "version: 1\napprovals: { per_minute: 1000 }\n";
    let toolkeep =
        ToolkeepServer::start_and_connect(Command::new(binary), configuration, folder).await?;
    let client = TwoKeyClient::with_keys(toolkeep.process.address, folder)?;
    let offered = client.count_tools().await?;
    tokio::time::sleep(IDLE_TIME).await;
    let idle = system_stats::process_memory(toolkeep.process.pid()).0;
    let mut rows = vec![ToolRow::idle_memory(offered, idle)];
    rows.push(measure_csv(&client, folder).await?);
    for (what, query) in [
        ("loaded and counted", "select count(*) as n, sum(amount) as total from sales"),
        (
            "loaded and grouped",
            "select city, count(*) as n, sum(amount) as total from sales group by city order by total desc, city limit 3",
        ),
    ] {
        rows.push(measure_sql(&client, folder, (what, query)).await?);
    }
    rows.push(
        measure_small(&client, "python_eval", &json!({"expression": "sum(range(10))"})).await?,
    );
    rows.push(measure_shell(&client).await?);
    let content: String = "all work and no play makes a dull file\n".repeat(FILE_BYTES / 39 + 1);
    let bytes = content.as_bytes().get(..FILE_BYTES).unwrap_or_default();
    fs::write(folder.join("data/work/large"), bytes).map_err(|e| e.to_string())?;
    rows.push(
        measure_small(&client, "read_file", &json!({"path": "large", "max_bytes": FILE_BYTES}))
            .await?,
    );
    let after = system_stats::process_memory(toolkeep.process.pid());
    rows.push(ToolRow::final_memory(after.0, after.1));
    Ok(rows)
}

fn median_time(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Runs the Python script on the arguments in `file`; returns its time and the path of its answer.
fn run_python(job: &str, file: &Path) -> Result<(Duration, PathBuf), String> {
    let answer = file.with_extension("answer");
    let ran =
        Command::new("python3").args(["-c", PYTHON_SCRIPT, job]).arg(file).arg(&answer).output();
    let ran = ran.map_err(|e| format!("python3: {e}"))?;
    let told = String::from_utf8_lossy(&ran.stdout);
    let seconds: f64 = told
        .trim()
        .parse()
        .map_err(|_| format!("python3: {}", String::from_utf8_lossy(&ran.stderr)))?;
    Ok((Duration::from_secs_f64(seconds), answer))
}

/// Measures Toolkeep and Python in turn; both answers must be identical.
async fn compare_calls(
    client: &TwoKeyClient,
    folder: &Path,
    (tool, args): (&str, String),
) -> Result<(Duration, Duration), String> {
    let file = folder.join("args.json");
    fs::write(&file, &args).map_err(|e| e.to_string())?;
    let body = Bytes::from(format!(r#"{{"tool":"{tool}","arguments":{args}}}"#));
    drop(args);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..LARGE_ROUNDS {
        let begun = Instant::now();
        let answer = client.call_tool(body.clone()).await?;
        ours.push(begun.elapsed());
        let (took, expected) = run_python(tool, &file)?;
        theirs.push(took);
        let expected = fs::read(expected).map_err(|e| e.to_string())?;
        if client.result_bytes(&answer).await? != expected {
            return Err(format!("{tool} and Python do not answer the same"));
        }
    }
    Ok((median_time(ours), median_time(theirs)))
}

async fn measure_csv(client: &TwoKeyClient, folder: &Path) -> Result<ToolRow, String> {
    let mut text = String::from("id,name,city,note,amount\n");
    let mut row = 0;
    while text.len() < CSV_BYTES {
        let (city, cents) = (row % 97, row * 7 % 100);
        let _written = writeln!(
            text,
            "{row},person {row},city {city},\"a note, as \"\"it\"\" is\",{row}.{cents:02}"
        );
        row += 1;
    }
    let args = json!({"csv_content": text, "numbers": false}).to_string();
    let (ours, theirs) = compare_calls(client, folder, ("csv_to_json", args)).await?;
    let what = format!("`csv_to_json`, {} MB, {row} rows", text.len() >> 20);
    Ok(ToolRow::comparison_row(what, ours, theirs, 4.0))
}

async fn measure_sql(
    client: &TwoKeyClient,
    folder: &Path,
    (what, query): (&str, &str),
) -> Result<ToolRow, String> {
    let mut tables = String::new();
    for n in 0..TABLE_ROWS {
        let comma = if n == 0 { "" } else { "," };
        let (city, amount) = (n % 97, n * 7 % 1000);
        let _written =
            write!(tables, r#"{comma}{{"id":{n},"city":"city {city}","amount":{amount}.5}}"#);
    }
    let args = format!(r#"{{"query":"{query}","tables":{{"sales":[{tables}]}}}}"#);
    let size = args.len() >> 20;
    let (ours, theirs) = compare_calls(client, folder, ("sql_query", args)).await?;
    Ok(ToolRow::comparison_row(
        format!("`sql_query`, {TABLE_ROWS} rows, {size} MB, {what}"),
        ours,
        theirs,
        2.0,
    ))
}

async fn measure_small(client: &TwoKeyClient, tool: &str, args: &Value) -> Result<ToolRow, String> {
    let body = json!({"tool": tool, "arguments": args}).to_string();
    let body = Bytes::from(body);
    client.call_tool(body.clone()).await?;
    let mut times = Vec::new();
    for _ in 0..SMALL_ROUNDS {
        let begun = Instant::now();
        client.call_tool(body.clone()).await?;
        times.push(begun.elapsed());
    }
    let (what, goal) = match tool {
        "read_file" => ("`read_file`, 10 MB", 30),
        _ => ("`python_eval`, a short expression, warm", 3),
    };
    Ok(ToolRow::limit_row(what, median_time(times), Duration::from_millis(goal)))
}

/// Measures an approved command, from resuming the call to its answer.
async fn measure_shell(client: &TwoKeyClient) -> Result<ToolRow, String> {
    let body = json!({"tool": "run_shell", "arguments": {"command": "true"}}).to_string();
    let mut times = Vec::new();
    for _ in 0..SMALL_ROUNDS {
        let held = client.call_tool(body.clone().into()).await?;
        let id = held.get("call_id").and_then(Value::as_str).ok_or("run_shell is not held")?;
        client.approve_call(id).await?;
        let begun = Instant::now();
        let answer = client.resume_call(id).await?;
        times.push(begun.elapsed());
        if answer.pointer("/result/returncode") != Some(&json!(0)) {
            return Err(format!("run_shell: {answer}"));
        }
    }
    Ok(ToolRow::limit_row(
        "`run_shell`, `true`, approved",
        median_time(times),
        Duration::from_millis(15),
    ))
}
