//! Compares the tools with reference programs: Python's own modules, py7zr, ruff, git and a shell,
//! installed by `cargo xtask provision` in the folder `TOOLKEEP_REAL`. Also runs the JMESPath
//! compliance tests.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use sandbox::process::ProcessLauncher;
use serde_json::{Value, json};
use testkit::installed_programs::installed_file;

use crate::calls::BIN;
use crate::stage::Stage;

/// Number of cases and of differences, by tool, library and reference.
type Counts = BTreeMap<[String; 3], (usize, usize)>;

/// Runs the reference script and returns its output line by line.
fn authority(python: &Path, args: &[&Path]) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/authority.py");
    let ran = Command::new(python).arg(script).args(args).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let text = String::from_utf8(ran.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn compared(stage: &Stage, cases: &[Value], counts: &mut Counts) -> Vec<String> {
    let mut differ = Vec::new();
    for case in cases {
        let text = |key: &str| case[key].as_str().unwrap_or_default().to_owned();
        let answered = stage.call(&text("tool"), &case["args"]).await;
        let found = match case.get("pointer").and_then(Value::as_str) {
            Some(pointer) => answered.as_ref().ok().and_then(|it| it.pointer(pointer)),
            None => answered.as_ref().ok(),
        };
        let row = counts.entry(["tool", "library", "authority"].map(text)).or_default();
        row.0 += 1;
        if !found.is_some_and(|found| same(found, &case["expect"])) {
            row.1 += 1;
            differ.push(format!(
                "{} {}: expected {}, found {answered:?}",
                text("tool"),
                case["args"],
                case["expect"]
            ));
        }
    }
    differ
}

/// Runs the JMESPath compliance tests of the crate `jmespath` through the tool.
async fn language(stage: &Stage, counts: &mut Counts) -> Vec<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let ask = ["metadata", "--format-version", "1", "--offline"];
    let told =
        Command::new(cargo).args(ask).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    let mut crates = told["packages"].as_array().unwrap().iter();
    let found = crates.find(|package| package["name"] == "jmespath").unwrap();
    let folder = Path::new(found["manifest_path"].as_str().unwrap()).parent().unwrap();
    let mut differ = Vec::new();
    for file in std::fs::read_dir(folder.join("tests/compliance")).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let suites: Value = serde_json::from_str(&text).unwrap();
        for suite in suites.as_array().unwrap() {
            for case in suite["cases"].as_array().unwrap() {
                let Some(query) =
                    case["expression"].as_str().filter(|_| case.get("bench").is_none())
                else {
                    continue;
                };
                let args = json!({ "data": suite["given"], "query": query });
                let found = stage.call("json_query", &args).await;
                let fits = match (&found, case.get("result")) {
                    (Ok(found), Some(wanted)) => same(found, wanted),
                    (found, None) => found.is_err(),
                    (Err(_), Some(_)) => false,
                };
                if !fits {
                    differ.push(format!("{query}: {found:?}"));
                }
                let row = ["json_query", "jmespath", "the language's own cases"];
                counts.entry(row.map(str::to_owned)).or_default().0 += 1;
            }
        }
    }
    differ
}

/// Compares values; numbers are equal with or without a decimal point.
fn same(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => found == wanted,
    }
}

#[tokio::test]
async fn each_tool_answers_as_its_authority() {
    let bin = installed_file("venv-authorities/bin");
    let launcher = ProcessLauncher::new(PathBuf::from(BIN), vec!["__launch".into()]);
    let stage = Stage::with(Some(launcher), Some(bin.clone())).await;
    let (python, work) = (bin.join("python"), stage.work());
    let mut counts = Counts::new();
    let cases = authority(&python, &[&work]);
    let mut differ = compared(&stage, &cases, &mut counts).await;
    differ.extend(language(&stage, &mut counts).await);
    // monty does not support all of Python; the reference documentation lists the count. Missing
    // features are errors, but a value that differs from Python's is not allowed.
    differ.retain(|case| !(case.starts_with("python_eval ") && case.contains(", found Err(")));
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n"));
    // Python verifies the written files.
    authority(&python, &[&work, Path::new("verify")]);
    let mut table =
        "| tool | library | authority | cases | differ |\n|---|---|---|---:|---:|\n".to_owned();
    for ([tool, library, authority], (cases, differ)) in &counts {
        writeln!(table, "| `{tool}` | {library} | {authority} | {cases} | {differ} |").unwrap();
    }
    assert!(counts.len() >= 20, "{counts:?}");
    crate::page::part("authorities", &table);
}
