//! `bench start`: how long a server with many tools in files takes from its start until it is ready.
//!
//! Ready is the first answer 200 of `/readyz`. The server is begun with a new data directory each time,
//! and every tool must be in the list that is asked for at once after that.

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

use crate::catalog::{Definitions, pages};
use crate::message::connect;
use crate::options;
use crate::toolkeep::Toolkeep;

pub(crate) const USAGE: &str = "usage: bench start --toolkeep PATH [--tools N]";

/// Starts of each shape; the median counts.
const STARTS: usize = 9;
/// Tools of one file, where there are many.
const FEW: usize = 100;
/// The longest a start may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Measures and prints.
pub(crate) async fn run(flags: &[&str]) -> Result<(), String> {
    let (binary, tools) = options::binary_and_tools(flags, 10_000).ok_or(USAGE)?;
    println!("| {tools} tools in | ready, ms | fastest | slowest | of those listed at once |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    for (shape, of_each, yaml) in [
        ("nothing but the built-ins", 0, false),
        ("one JSON file", tools, false),
        ("one YAML file", tools, true),
        ("JSON files of 100", FEW, false),
        ("YAML files of 100", FEW, true),
    ] {
        let folder = super::catalog::tempfile()?;
        let measured = measure(binary, &folder, (tools, of_each, yaml)).await;
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

/// The times of all starts, from the fastest on, and the fewest tools that were listed at once.
async fn measure(
    binary: &Path,
    folder: &Path,
    (tools, of_each, yaml): (usize, usize, bool),
) -> Result<(Vec<Duration>, usize), String> {
    let mut configuration = "version: 1\n".to_owned();
    let extension = if yaml { "yaml" } else { "json" };
    for (number, from) in (0..tools).step_by(of_each.max(1)).enumerate().filter(|_| of_each > 0) {
        let file = folder.join(format!("tools-{number}.{extension}"));
        Definitions(from..(from + of_each).min(tools)).write(&file)?;
        configuration += if number == 0 { "sources:\n" } else { "" };
        let source = format!("  - name: big{number}\n    tools: {}\n", json!(file));
        configuration += &source;
    }
    let (mut times, mut fewest) = (Vec::new(), usize::MAX);
    for _ in 0..STARTS {
        let begun = Instant::now();
        let mut toolkeep = Toolkeep::spawn(Command::new(binary), &configuration, folder)?;
        ready(&mut toolkeep, begun).await?;
        times.push(begun.elapsed());
        toolkeep.greet(folder).await?;
        fewest = fewest.min(pages(&toolkeep).await?.1);
    }
    times.sort();
    Ok((times, fewest))
}

/// Resolves when it answers that it is ready.
async fn ready(toolkeep: &mut Toolkeep, begun: Instant) -> Result<(), String> {
    let address = toolkeep.part.address;
    while begun.elapsed() < PATIENCE && !toolkeep.part.ended() {
        if TcpStream::connect(address).await.is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        }
        let request = Request::get("/readyz").header(HOST, address.to_string());
        let request = request.body(Full::new(Bytes::new())).map_err(|e| e.to_string())?;
        let answer = connect(address).await?.send_request(request).await;
        if answer.is_ok_and(|answer| answer.status() == StatusCode::OK) {
            return Ok(());
        }
    }
    Err("toolkeep does not get ready".to_owned())
}
