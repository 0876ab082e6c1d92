//! `bench start`: start-up time of a server with many tools in files.
//!
//! A server is ready at the first 200 of `/readyz`. Each start has a new data directory, and the
//! tool list requested right afterwards must contain every tool.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::HOST;
use http::{Request, StatusCode};
use http_body_util::Full;
use serde_json::json;
use tokio::net::TcpStream;

use crate::catalog::{ToolFileDefinitions, fetch_pages};
use crate::options;
use crate::timed_request::open_connection;
use crate::toolkeep_process::ToolkeepServer;

pub(crate) const USAGE: &str = "usage: bench start --toolkeep PATH [--tools N]";

/// Number of starts for each shape; the report shows the median.
const START_COUNT: usize = 9;
/// Number of tools per file for shapes with many files.
const TOOLS_PER_FILE: usize = 100;
/// Longest time for a start.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs the benchmark and prints the figures.
pub(crate) async fn run_start_bench(flags: &[&str]) -> Result<(), String> {
    let (binary, tools) = options::binary_and_tools(flags, 10_000).ok_or(USAGE)?;
    println!("| {tools} tools in | ready, ms | fastest | slowest | of those listed at once |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    for (shape, of_each, yaml) in [
        ("nothing but the built-ins", 0, false),
        ("one JSON file", tools, false),
        ("one YAML file", tools, true),
        ("JSON files of 100", TOOLS_PER_FILE, false),
        ("YAML files of 100", TOOLS_PER_FILE, true),
    ] {
        let folder = super::catalog::create_temp_folder()?;
        let measured = measure_starts(binary, &folder, (tools, of_each, yaml)).await;
        drop(fs::remove_dir_all(&folder));
        let (times, listed) = measured?;
        let ms = |at: usize| times.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e3);
        println!(
            "| {shape} | {:.0} | {:.0} | {:.0} | {listed} |",
            ms(times.len() / 2),
            ms(0),
            ms(times.len().saturating_sub(1))
        );
    }
    Ok(())
}

/// Measures all starts: sorted times and the smallest number of tools in the first list.
async fn measure_starts(
    binary: &Path,
    folder: &Path,
    (tools, of_each, yaml): (usize, usize, bool),
) -> Result<(Vec<Duration>, usize), String> {
    let mut configuration = "version: 1\n".to_owned();
    let extension = if yaml { "yaml" } else { "json" };
    for (number, from) in (0..tools).step_by(of_each.max(1)).enumerate().filter(|_| of_each > 0) {
        let file = folder.join(format!("tools-{number}.{extension}"));
        ToolFileDefinitions(from..(from + of_each).min(tools)).write_file(&file)?;
        configuration += if number == 0 { "sources:\n" } else { "" };
        let source = format!("  - name: big{number}\n    tools: {}\n", json!(file));
        configuration += &source;
    }
    let (mut times, mut fewest) = (Vec::new(), usize::MAX);
    for _ in 0..START_COUNT {
        let begun = Instant::now();
        let mut toolkeep =
            ToolkeepServer::spawn_fresh(Command::new(binary), &configuration, folder)?;
        wait_until_ready(&mut toolkeep, begun).await?;
        times.push(begun.elapsed());
        toolkeep.connect_session(folder).await?;
        fewest = fewest.min(fetch_pages(&toolkeep).await?.1);
    }
    times.sort();
    Ok((times, fewest))
}

/// Waits until `/readyz` answers 200.
async fn wait_until_ready(toolkeep: &mut ToolkeepServer, begun: Instant) -> Result<(), String> {
    let address = toolkeep.process.address;
    while begun.elapsed() < START_TIMEOUT && !toolkeep.process.has_ended() {
        if TcpStream::connect(address).await.is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        }
        let request = Request::get("/readyz").header(HOST, address.to_string());
        let request = request.body(Full::new(Bytes::new())).map_err(|e| e.to_string())?;
        let answer = open_connection(address).await?.send_request(request).await;
        if answer.is_ok_and(|answer| answer.status() == StatusCode::OK) {
            return Ok(());
        }
    }
    Err("toolkeep does not get ready".to_owned())
}
