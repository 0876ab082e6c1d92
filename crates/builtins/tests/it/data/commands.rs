//! Attacks by shell commands and by texts that become commands if they are not quoted.

use sandbox::process::{ChildExit, CommandSpec, ProcessLauncher};
use sandbox::{SandboxLevel, SandboxSpec};
use serde_json::{Value, json};
use testkit::shared_data::read_rows;
use tokio::io::AsyncReadExt as _;

use super::marks;
use crate::calls::{BIN, Stage, value};

fn text<'a>(row: &'a Value, field: &str) -> &'a str {
    row[field].as_str().unwrap_or_default()
}

/// Runs a program with a fixed argv and returns its output.
async fn said(argument: &str) -> Result<String, String> {
    let launcher = ProcessLauncher::new(BIN.into(), vec!["__launch".into()]);
    let mut sandbox_spec = SandboxSpec::new(SandboxLevel::Full);
    sandbox_spec.limits.max_tasks = 8;
    let spec = CommandSpec {
        command: "/usr/bin/printf".to_owned(),
        args: vec!["%s".to_owned(), argument.to_owned()],
        clear_env: true,
        cwd: Some("/".into()),
        sandbox: Some(sandbox_spec),
        ..CommandSpec::default()
    };
    let mut child = launcher.spawn_child(&spec).map_err(|error| error.to_string())?;
    let mut said = Vec::new();
    child.take_stdout().unwrap().read_to_end(&mut said).await.unwrap();
    assert_eq!(child.wait_ended().await, ChildExit::Code(0));
    Ok(String::from_utf8(said).unwrap())
}

#[tokio::test]
async fn texts_reach_a_program_as_one_argument() {
    let rows = read_rows("attacks/command_injection.jsonl");
    let payloads: Vec<_> = rows.iter().filter(|row| row.get("payload").is_some()).collect();
    let (mut refused, mut otherwise) = (0, 0);
    for (number, row) in payloads.iter().enumerate() {
        let payload = text(row, "payload");
        match said(payload).await {
            Ok(said) => assert_eq!(said, payload, "{}", row["id"]),
            Err(error) => {
                assert!(payload.contains('\0') && error.contains("NUL"), "{}: {error}", row["id"]);
                refused += 1;
            }
        }
        // Control: pasted into a shell command line, in its own sandbox, so that it does no harm.
        if number % 8 == 0 && !payload.contains('\0') {
            let stage = Stage::new().await;
            let line = format!("/usr/bin/printf %s {payload}");
            let told =
                value(&stage.call("run_shell", &json!({"command": line, "timeout": 2})).await);
            otherwise += usize::from(told["stdout"] != *payload);
        }
    }
    assert_eq!(marks(), [] as [std::path::PathBuf; 0]);
    assert!(otherwise > 10, "the naive way is as good: {otherwise}");
    println!(
        "command_injection, one argument: {} rows, {refused} refused, 0 otherwise",
        payloads.len()
    );
}

#[tokio::test]
async fn as_lines_of_a_shell_they_do_nothing_outside() {
    let rows = read_rows("attacks/command_injection.jsonl");
    let stage = Stage::new().await;
    let few = if std::env::var_os("TOOLKEEP_DEEP").is_some_and(|word| word == "1") { 1 } else { 4 };
    let (mut ran, mut marked) = (0, 0);
    for row in rows.iter().filter(|row| row.get("payload").is_some()).step_by(few) {
        let payload = text(row, "payload").replace('\0', "");
        // Positive control: a file that the line creates is in the sandbox's own folder.
        let line = format!("{payload}\nls /tmp\n");
        let args = json!({"command": line, "timeout": 1});
        let told = stage.call("run_shell", &args).await;
        let told = value(&told);
        assert!(!told.to_string().contains("root:x:0:0"), "{}: {told}", row["id"]);
        let listed = told["stdout"].as_str().unwrap_or_default();
        marked += usize::from(listed.lines().any(|name| name.starts_with("gw_pwned")));
        ran += 1;
    }
    assert_eq!(marks(), [] as [std::path::PathBuf; 0]);
    assert!(marked > 0, "no line left its mark where it ran: nothing would be seen outside either");
    println!("command_injection, as a line: {ran} rows, {marked} left marks inside, 0 outside");
}
