//! JSON on which parsers disagree, as arguments of every tool that takes JSON. Invalid JSON is
//! rejected before a tool sees it; valid JSON is parsed by all tools as Python parses it.

use std::fmt::Write as _;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sandbox::process::ProcessLauncher;
use serde_json::Value;
use testkit::shared_data::read_rows_as;

use super::naive;
use super::table::{Family, Row, text};
use crate::calls::BIN;
use crate::stage::Stage;

/// Tool, and the text before and after the tested value.
const AROUND: [(&str, &str, &str); 5] = [
    ("json_query", r#"{"query":"@","data":"#, "}"),
    ("json_to_csv", r#"{"data":[{"a":"#, "}]}"),
    ("sql_query", r#"{"query":"SELECT a FROM t","tables":{"t":[{"a":"#, "}]}}"),
    ("python_eval", r#"{"expression":"x","variables":{"x":"#, "}}"),
    ("echo", r#"{"message":"m","value":"#, "}"),
];
/// A lenient parser accepts rejected texts: the last of two keys, half a character and more.
const NAIVE: &str = "
import json, sys
taken = 0
for line in open(sys.argv[1]):
    try:
        json.loads(bytes.fromhex(line).decode('utf-8', 'replace'))
        taken += 1
    except (ValueError, RecursionError):
        pass
print(taken)
";

pub(super) async fn run() -> Family {
    let rows = read_rows_as::<Row>("attacks/json_torture.jsonl");
    let launcher = ProcessLauncher::new(PathBuf::from(BIN), vec!["__launch".into()]);
    let stage = Stage::with(Some(launcher), None).await;
    let (mut tried, mut refused, mut wrong) = (0, 0, Vec::new());
    let mut none = String::new();
    for row in rows.iter().filter(|row| row.contains_key("b64")) {
        let (name, body) = (text(row, "name").unwrap_or_default(), text(row, "b64").unwrap());
        let body = STANDARD.decode(body).unwrap();
        for (tool, before, behind) in AROUND {
            let whole = [before.as_bytes(), &body, behind.as_bytes()].concat();
            let answer = stage.call_raw(tool, whole).await;
            tried += 1;
            refused += usize::from(answer.is_err());
            if tool == "json_query" && answer.is_err() {
                for byte in &body {
                    write!(none, "{byte:02x}").unwrap();
                }
                none.push('\n');
            }
            // A duplicate key is rejected: two parsers could read different values.
            let fine = match name.split('_').next() {
                Some("n") => answer.is_err(),
                Some("y") if name.contains("duplicated_key") => answer.is_err(),
                Some("y") => answer.is_ok() && reads(tool, &answer, &body),
                _ => true,
            };
            if !fine {
                wrong.push(format!("{tool} {name}: {answer:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let file = stage.home.path().join("none");
    std::fs::write(&file, none).unwrap();
    let taken = naive("python3", &["-c", NAIVE, file.to_str().unwrap()], stage.home.path());
    Family {
        name: "JSON that is none, or is doubtful",
        tools: "json_query, json_to_csv, sql_query, python_eval, echo",
        control: "Python's `json` reads some of what is refused",
        tried,
        refused,
        escapes: wrong.len(),
        naive: taken.map_or(0, |(_, told)| told.trim().parse().unwrap_or(0)),
    }
}

/// Tools that return the value return it unchanged.
fn reads(tool: &str, answer: &Result<Value, Value>, body: &[u8]) -> bool {
    let wanted: Value = serde_json::from_slice(body).unwrap();
    match (tool, answer) {
        ("json_query", Ok(found)) => *found == wanted,
        ("echo", Ok(found)) => found["echo"]["value"] == wanted,
        (_, found) => found.is_ok(),
    }
}
