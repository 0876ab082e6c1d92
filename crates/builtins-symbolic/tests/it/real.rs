//! Compares the tool with sympy on the same equations. Cases and verdicts come from
//! `tests/real/equations.py`.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use testkit::installed_programs::installed_file;

use crate::calls::{call, tool, value};

fn authority(what: &str, input: &Value) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/equations.py");
    #[expect(clippy::disallowed_methods, reason = "the authority is a program of its own")]
    let mut python = Command::new(installed_file("venv-math/bin/python"));
    python.arg(script).arg(what).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = python.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let text = input.to_string();
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let ended = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap_or_default();
    assert!(ended.status.success(), "the authority failed");
    serde_json::from_slice(&ended.stdout).unwrap()
}

#[tokio::test]
async fn solutions_are_those_of_sympy() {
    let tool = tool();
    let cases = authority("cases", &json!(null));
    let mut answered = Vec::new();
    for args in cases.as_array().unwrap() {
        let mut asked = args.clone();
        asked.as_object_mut().unwrap().remove("plainly");
        let outcome = call(&tool, &asked).await;
        let field = if outcome.is_error { "error" } else { "answer" };
        answered.push(json!({ "args": args, field: value(&outcome) }));
    }
    let verdicts = authority("judge", &json!(answered));
    let verdicts = verdicts.as_array().unwrap();
    let said = |it: &Value| it["verdict"].as_str().unwrap().to_owned();
    let count = |kind: &str| verdicts.iter().filter(|it| said(it) == kind).count();
    let (same, more, plain) = (count("same"), count("more"), count("plain"));
    let other: Vec<&Value> =
        verdicts.iter().filter(|it| !["same", "more", "plain"].contains(&&*said(it))).collect();
    println!(
        "{} equations: {same} as sympy, {more} that sympy cannot, {plain} refused plainly; {other:#?}",
        verdicts.len(),
    );
    let wrong: Vec<&&Value> = other.iter().filter(|it| said(it).starts_with("WRONG")).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(verdicts.len() >= 150);
    let judged = verdicts.len() - plain;
    assert!((same + more) * 100 >= judged * 95, "{same} + {more} of {judged}");
}
