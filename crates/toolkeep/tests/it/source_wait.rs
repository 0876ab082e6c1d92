//! Tests of the sources that a command without a server waits for. A list does not wait for a
//! hanging source but names it; a tool name waits for sources that may have it.

use std::fs;
use std::io::Read as _;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::command_runner::{CommandHome, ProgramOutput, wait_until};
use crate::support::mcp_source;
use crate::support::process_marks::new_mark;

/// Longer than any wait of a list, and shorter than that for a source that is needed.
const SHORT: Duration = Duration::from_secs(20);

/// An installation with a hanging source and a working one. A start may take an hour, so a command
/// that waits for it does not end.
fn home() -> CommandHome {
    let (home, mark) = (CommandHome::new(), new_mark());
    let with = |row: String, more: &str| row.replace(" }\n", &format!(", {more} }}\n"));
    let hangs = with(mcp_source::source("hangs", "leaf", &mark), "startup_timeout: 1h");
    let works = mcp_source::source("works", "echo, shout", &mark);
    let works = with(works, "destructive: [shout], chain: [shout]");
    home.write("toolkeep.yaml", &format!("version: 1\nsources:\n{hangs}{works}"));
    home
}

/// An installation whose source `late` starts when the file `go` exists, and creates the file
/// `started` while it waits.
fn late() -> CommandHome {
    let home = CommandHome::new();
    let script = format!(
        "touch '{}'; while [ ! -e '{}' ]; do sleep 0.02; done; exec '{}' echo tardy",
        home.path("started").display(),
        home.path("go").display(),
        mcp_source::program().display()
    );
    let source = json!({"name": "late", "mcp": {"command": "sh", "args": ["-c", script]}});
    home.write("toolkeep.yaml", &json!({"version": 1, "sources": [source]}).to_string());
    home
}

/// Runs a command, and returns its duration.
fn timed(home: &CommandHome, line: &[&str]) -> (ProgramOutput, Duration) {
    #[expect(clippy::disallowed_methods, reason = "how long a command takes is the question here")]
    let began = Instant::now();
    let ran = home.run(line);
    (ran, began.elapsed())
}

fn quick(home: &CommandHome, line: &[&str]) -> ProgramOutput {
    let (ran, took) = timed(home, line);
    assert!(took < SHORT, "{line:?} took {took:?}: {}", ran.err);
    ran
}

#[test]
fn a_list_does_not_wait_for_a_source_that_hangs_and_names_it() {
    let home = home();
    for line in [
        &["tool", "list"][..],
        &["tool", "count"],
        &["tool", "export", "--format", "anthropic"],
        &["source", "list"],
        &["pin", "list"],
        &["approval", "list"],
        &["program", "tools"],
    ] {
        let ran = quick(&home, line);
        assert_eq!(ran.code, 0, "{line:?}: {}", ran.err);
        assert!(ran.err.contains("omitted: `hangs`"), "{line:?}: {}", ran.err);
        assert!(ran.err.contains("--source-timeout 30s"), "{line:?}: {}", ran.err);
    }
    // Control: if no source is left out, the output has no note.
    for line in [&["key", "list"][..], &["tool", "list", "--source", "works"]] {
        let ran = quick(&home, line);
        assert!(ran.code == 0 && !ran.err.contains("omitted"), "{line:?}: {}", ran.err);
    }
}

#[test]
fn the_first_list_with_a_source_that_hangs_takes_less_than_a_second() {
    let home = CommandHome::new();
    let source = json!({"name": "hangs", "mcp": {"command": "sleep", "args": ["3600"]}});
    home.write("toolkeep.yaml", &json!({"version": 1, "sources": [source]}).to_string());
    // Of several runs, because other tests run at the same time.
    let mut took = Vec::new();
    while !took.iter().any(|took| *took < Duration::from_secs(1)) {
        assert!(took.len() < 20, "none took less than a second: {took:?}");
        let (ran, time) = timed(&home, &["tool", "list"]);
        took.push(time);
        assert!(ran.code == 0 && ran.err.contains("omitted: `hangs`"), "{}", ran.err);
    }
}

#[test]
fn a_list_waits_for_as_long_as_it_is_told() {
    let home = late();
    // The control: by itself it does not wait for this one.
    let ran = quick(&home, &["tool", "list"]);
    assert!(ran.err.contains("`late`") && !ran.out.contains("tardy"), "{}{}", ran.out, ran.err);
    fs::remove_file(home.path("started")).unwrap();
    let mut waiting = home.follow(&["tool", "list", "--source-timeout", "5m"]);
    wait_until("the source starts", || home.path("started").exists());
    std::thread::sleep(Duration::from_secs(1));
    fs::write(home.path("go"), "").unwrap();
    let mut out = String::new();
    waiting.out().read_to_string(&mut out).unwrap();
    assert!(out.contains("tardy"), "{out}");
    assert_eq!(home.run(&["tool", "list", "--source-timeout", "long"]).code, 2);
}

#[test]
fn a_call_by_name_waits_for_the_source_that_may_have_the_tool_and_says_so() {
    for name in ["late.tardy", "late_tardy"] {
        let home = late();
        let mut call = home.follow(&["tool", "call", name, "message=hi"]);
        // It reports that after a second, and keeps waiting.
        let said = call.err_line();
        assert!(said.contains("waiting for sources") && said.contains("`late`"), "{said}");
        fs::write(home.path("go"), "").unwrap();
        let mut out = String::new();
        call.out().read_to_string(&mut out).unwrap();
        assert!(out.contains("hi"), "{name}: {out}");
    }
}

#[test]
fn approvals_and_programs_do_not_wait_for_a_source_that_they_do_not_need() {
    let home = home();
    let none = "01980000-0000-7000-8000-000000000000";
    for line in [
        &["approval", "show", none][..],
        &["approval", "approve", none],
        &["approval", "deny", none],
        &["program", "show", none],
        &["program", "resume", none],
        &["program", "cancel", none],
    ] {
        let ran = quick(&home, line);
        assert!(ran.code != 0 && ran.err.contains("not_found"), "{line:?}: {}", ran.err);
    }
    assert_eq!(quick(&home, &["program", "list"]).code, 0);
    // No MCP server has a tool by a short name.
    let ran = quick(&home, &["tool", "call", "no_such_tool"]);
    assert!(ran.code != 0 && ran.err.contains("unknown_tool"), "{}", ran.err);
    home.write("own.py", "calculate('6 * 7')");
    let ran = quick(&home, &["program", "run", "own.py"]);
    assert!(ran.code == 0 && ran.out.contains("42"), "{}{}", ran.out, ran.err);

    // A waiting program is shown, approved and resumed: the working source is awaited, the other
    // one is not.
    home.write("held.py", "[works_shout(message='one'), works_shout(message='two')]");
    let agent = fs::read_to_string(home.data("agent.key")).unwrap();
    let agent = ("TOOLKEEP_KEY", agent.trim());
    let begun = home.run_with(&["program", "run", "held.py", "-o", "json"], agent).json();
    let held = begun["pending"][0]["approval"].as_str().unwrap().to_owned();
    let shown = quick(&home, &["approval", "show", &held]);
    assert!(shown.code == 0 && shown.out.contains("works"), "{}{}", shown.out, shown.err);
    let ran = quick(&home, &["approval", "approve", &held]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let program = begun["program"].as_str().unwrap();
    // It resumes in parallel to the command, so a busy machine may show the earlier state.
    let next = (0..20).find_map(|_| {
        let shown = home.run_with(&["program", "show", program, "-o", "json"], agent).json();
        shown["pending"][0]["approval"].as_str().filter(|next| *next != held).map(str::to_owned)
    });
    assert!(next.is_some(), "it did not go on to its second call");
}
