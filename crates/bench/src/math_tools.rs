//! `bench math`: whole calls of math tools compared with the same computation in Python.
//!
//! `peers/compute.py` contains the pairs. It is both the caller and the comparison, so that both
//! alternate in one process. The figures of both include JSON parsing and encoding.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::system_stats;
use crate::toolkeep_process::ToolkeepServer;

pub(crate) const USAGE: &str = "usage: cargo xtask bench math [--model FOLDER] [--write]\n(within: --toolkeep PATH --python PATH)";

const HEAD: &str = "\
# What computing costs

Written by `cargo xtask bench math --write`; not by hand. A whole call over HTTP, from the bytes of its arguments \
to those of its answer, beside numpy and scipy on the same bytes, which they read and write as JSON too. Each pair \
takes turns in one run; the least of a few times counts. numpy runs on as many threads as it likes.
";

/// Runs the benchmark and prints the report; fails if a figure misses its target.
pub(crate) async fn run_math_bench(flags: &[&str]) -> Result<(), String> {
    let (mut toolkeep, mut python, mut model, mut write) = (None, None, None, None);
    for pair in flags.chunks(2) {
        match pair {
            ["--toolkeep", path] => toolkeep = Some(Path::new(*path)),
            ["--python", path] => python = Some(Path::new(*path)),
            ["--model", path] => model = Some(Path::new(*path)),
            ["--write", path] => write = Some(Path::new(*path)),
            _ => return Err(USAGE.to_owned()),
        }
    }
    let (toolkeep, python) = (toolkeep.ok_or(USAGE)?, python.ok_or(USAGE)?);
    let folder = crate::catalog::create_temp_folder()?;
    let measured = measure_pairs(toolkeep, python, model, &folder).await;
    drop(fs::remove_dir_all(&folder));
    let rows = measured?;
    let report = format!(
        "{HEAD}\nMachine: {}.\n\n{}",
        system_stats::describe_machine(),
        format_table(&rows)
    );
    println!("{report}");
    if let Some(path) = write {
        fs::write(path, &report).map_err(|error| format!("`{}`: {error}", path.display()))?;
    }
    let is_good = |row: &&Value| row.get("good") == Some(&Value::Bool(true));
    match rows.len() - rows.iter().filter(is_good).count() {
        0 => Ok(()),
        poor => Err(format!("{poor} figures miss their targets or were not measured")),
    }
}

async fn measure_pairs(
    binary: &Path,
    python: &Path,
    model: Option<&Path>,
    folder: &Path,
) -> Result<Vec<Value>, String> {
    let configuration = "version: 1\nlimits: { calls: 16, calls_per_key: 16 }\n";
    let data = folder.join("data");
    let server = match model {
        None => ToolkeepServer::spawn_fresh(Command::new(binary), configuration, folder)?,
        Some(model) => {
            let mut install = Command::new(binary);
            run_to_end(install.args(["model", "install"]).arg(model).arg("--data").arg(&data))?;
            ToolkeepServer::spawn_existing(Command::new(binary), configuration, folder)?
        }
    };
    let server = server.wait_until_connected(folder).await?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/compute.py");
    let mut rival = Command::new(python);
    rival.arg("-B").arg(script).arg(format!("http://{}", server.process.address));
    rival.arg(data.join("agent.key"));
    // These variables would force the instruction set of an older library.
    rival.env_remove("OPENBLAS_CORETYPE").env_remove("OPENBLAS_L2_SIZE");
    let said = run_to_end(&mut rival)?;
    serde_json::from_slice(&said).map_err(|error| format!("peers/compute.py: {error}"))
}

fn run_to_end(command: &mut Command) -> Result<Vec<u8>, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| error.to_string())?;
    output.status.success().then_some(output.stdout).ok_or_else(|| format!("`{name}` failed"))
}

fn format_table(rows: &[Value]) -> String {
    let mut text = "| what | Toolkeep, ms | Python, ms | ratio | to be at most |\n".to_owned();
    text += "| --- | ---: | ---: | ---: | ---: |\n";
    for row in rows {
        let number = |name: &str| row.get(name).and_then(Value::as_f64);
        let what = row.get("what").and_then(Value::as_str).unwrap_or_default();
        let told = |value: Option<f64>, by: f64| {
            value.map_or_else(
                || "–".to_owned(),
                |value| format!("{:.*}", usize::from(by < 2.0) + 1, value * by),
            )
        };
        let (ours, theirs) = (told(number("ours"), 1e3), told(number("theirs"), 1e3));
        let (ratio, mut allowed) = (told(number("ratio"), 1.0), told(number("allowed"), 1.0));
        if row.get("good") != Some(&Value::Bool(true)) {
            allowed += ", **missed**";
        }
        match row.get("refused").and_then(Value::as_str) {
            Some(why) => {
                let why = why.replace('|', "/");
                let _infallible = writeln!(text, "| {what} | not measured: {why} | | | |");
            }
            None => {
                let _infallible =
                    writeln!(text, "| {what} | {ours} | {theirs} | {ratio} | {allowed} |");
            }
        }
    }
    text
}
