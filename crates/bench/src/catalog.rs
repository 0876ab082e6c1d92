//! `bench catalog`: what large catalogs cost those who are not listing them.
//!
//! Tool files of 10,000 tools each; every page is asked for, before the catalog was ever listed and
//! again, while one caller goes on calling a tool behind. And: the first list after a tool was added.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::message::{Message, connect};
use crate::options;
use crate::target::Part;
use crate::toolkeep::{SOURCE, Toolkeep};

pub(crate) const USAGE: &str = "usage: bench catalog --toolkeep PATH [--tools N]";

/// Tools of one file; a file may have no more.
const FILE: usize = 10_000;
/// How long a changed file may take to be seen.
const PATIENCE: Duration = Duration::from_secs(30);

/// Measures and prints.
pub(crate) async fn run(flags: &[&str]) -> Result<(), String> {
    let (binary, tools) = options::binary_and_tools(flags, 100_000).ok_or(USAGE)?;
    let folder = tempfile()?;
    let done = measure(binary, &folder, tools).await;
    drop(fs::remove_dir_all(&folder));
    done
}

/// A folder to work in.
pub(crate) fn tempfile() -> Result<std::path::PathBuf, String> {
    let folder = std::env::temp_dir().join(format!("toolkeep-catalog-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|e| format!("`{}`: {e}", folder.display()))?;
    Ok(folder)
}

async fn measure(binary: &Path, folder: &Path, tools: usize) -> Result<(), String> {
    let upstream = Part::start(&["upstream", "2"])?;
    let mut configuration = format!(
        "version: 1\nsources:\n  - name: {SOURCE}\n    mcp: {{ url: \"http://{}/mcp\" }}\n    read_only: [echo]\n",
        upstream.address
    );
    for (number, from) in (0..tools).step_by(FILE).enumerate() {
        let file = folder.join(format!("tools-{number}.json"));
        Definitions(from..(from + FILE).min(tools)).write(&file)?;
        let line = format!("  - name: big{number}\n    tools: \"{}\"\n", file.display());
        configuration.push_str(&line);
    }
    let begun = Instant::now();
    let toolkeep = Toolkeep::with(Command::new(binary), &configuration, folder).await?;
    while pages(&toolkeep).await?.1 < tools {
        if begun.elapsed() > PATIENCE {
            return Err("the tools are not listed; look at `toolkeep source list`".to_owned());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!("{tools} tools: all listed {} after the start", ms(begun.elapsed()));
    let call = Message::call(toolkeep.part.address, toolkeep.named("echo")?);
    let call = call.with(&toolkeep.headers);
    let alone = tokio::time::sleep(Duration::from_secs(3));
    println!("calls alone: {}", beside(&call, alone).await?.1);
    let (paged, pauses) = beside(&call, pages(&toolkeep)).await?;
    let (count, listed, slowest) = paged?;
    println!(
        "{count} pages of {listed} tools, the slowest in {}; calls beside: {pauses}",
        ms(slowest)
    );
    let file = folder.join("tools-0.json");
    let change = async {
        Definitions(1..FILE.min(tools)).write(&file)?;
        let (first, seen) = changed(&toolkeep).await?;
        let (count, _, slowest) = pages(&toolkeep).await?;
        Ok::<_, String>((first, seen, count, slowest))
    };
    let (change, pauses) = beside(&call, change).await?;
    let (first, seen, count, slowest) = change?;
    println!(
        "a tool goes: seen after {}, first list of the new catalog in {}",
        ms(seen),
        ms(first)
    );
    println!("and its {count} pages, the slowest in {}; calls beside: {pauses}", ms(slowest));
    Ok(())
}

/// A tool file that offers these numbers.
pub(crate) struct Definitions(pub(crate) Range<usize>);

impl Definitions {
    /// Puts it in the place of `file`: YAML as a person would write it, or JSON.
    pub(crate) fn write(self, file: &Path) -> Result<(), String> {
        let text = if file.extension().is_some_and(|it| it == "yaml") {
            format!("tools:\n{}", self.0.map(yaml).collect::<String>())
        } else {
            json!({"tools": self.0.map(tool).collect::<Vec<_>>()}).to_string()
        };
        let whole = file.with_extension("new");
        let failed = |e: std::io::Error| format!("`{}`: {e}", file.display());
        fs::write(&whole, text).map_err(failed)?;
        fs::rename(&whole, file).map_err(failed)
    }
}

const DESCRIPTION: &str = "One of very many tools that are there to be listed.";

fn tool(number: usize) -> Value {
    json!({
        "name": format!("tool_{number}"),
        "type": "function",
        "handler": "mock",
        "description": DESCRIPTION,
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
        "implementation": {"type": "mock", "mock_response": "none"},
    })
}

fn yaml(number: usize) -> String {
    format!(
        "  - name: tool_{number}\n    type: function\n    handler: mock\n    description: {DESCRIPTION}\n    \
         parameters:\n      type: object\n      properties:\n        text:\n          type: string\n    \
         implementation:\n      type: mock\n      mock_response: none\n"
    )
}

/// Asks for every page: how many there are, how many tools, and the slowest answer.
pub(crate) async fn pages(toolkeep: &Toolkeep) -> Result<(usize, usize, Duration), String> {
    let mut connection = connect(toolkeep.part.address).await?;
    let (mut pages, mut tools, mut slowest, mut cursor) = (0, 0, Duration::ZERO, None);
    loop {
        let page = Message::page(toolkeep.part.address, cursor.as_deref());
        let page = page.with(&toolkeep.headers);
        let sent = Instant::now();
        let answer = page.send(&mut connection).await?;
        slowest = slowest.max(sent.elapsed());
        let answer = answer.json()?;
        let result = answer.get("result").ok_or_else(|| format!("no list: {answer}"))?;
        pages += 1;
        tools += result.get("tools").and_then(Value::as_array).map_or(0, Vec::len);
        cursor = result.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
        if cursor.is_none() {
            return Ok((pages, tools, slowest));
        }
    }
}

/// Runs `work` while a caller calls; with it, what that caller saw.
async fn beside<T>(call: &Message, work: impl Future<Output = T>) -> Result<(T, String), String> {
    let (stop, mut stopped) = watch::channel(false);
    let (call, mut taken) = (call.clone(), Vec::new());
    let calling = tokio::spawn(async move {
        let mut connection = connect(call.address).await?;
        while !*stopped.borrow_and_update() {
            let sent = Instant::now();
            let answer = call.send(&mut connection).await?;
            taken.push(sent.elapsed());
            if !call.fits(&answer) {
                return Err(answer.start());
            }
        }
        taken.sort();
        let at = |share: usize| taken.get(taken.len() * share / 1_000).copied().unwrap_or_default();
        let most = taken.last().copied().unwrap_or_default();
        Ok(format!(
            "{} calls, p50 {}, p99 {}, longest {}",
            taken.len(),
            ms(at(500)),
            ms(at(990)),
            ms(most)
        ))
    });
    let done = work.await;
    // It fails where the caller has ended by itself, which the next line tells.
    stop.send(true).ok();
    Ok((done, calling.await.map_err(|e| e.to_string())??))
}

/// Waits until the first page is another: how long its first answer took, and how long it was waited for.
async fn changed(toolkeep: &Toolkeep) -> Result<(Duration, Duration), String> {
    let address = toolkeep.part.address;
    let mut connection = connect(address).await?;
    let first = Message::list(address).with(&toolkeep.headers);
    let old = first.send(&mut connection).await?.body;
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let sent = Instant::now();
        let answer = first.send(&mut connection).await?;
        let took = sent.elapsed();
        if answer.body != old {
            return Ok((took, begun.elapsed()));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Err(format!("a change was not seen within {} s", PATIENCE.as_secs()))
}

fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1_000.0)
}
