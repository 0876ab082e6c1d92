use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use super::{ApprovalHome, wait_for_pending};
use crate::real_support::{run_cli, toolkeep};
use crate::support::server_process::start_server;

/// One terminal calls and waits, the other watches and decides.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_waits_in_one_terminal_and_is_decided_in_another() {
    let bench = ApprovalHome::new("");
    let server = start_server(&bench.home).await;
    let mut watch = toolkeep()
        .args(["approval", "watch", "--every-ms", "100", "-o", "json", "--data"])
        .arg(&server.data)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    for (n, how, expected) in [(1, "approve", 0), (2, "deny", 3), (3, "edit", 0)] {
        let call = toolkeep()
            .args(["tool", "call", "wipe", &format!("n={n}"), "--agent", "--wait", "--data"])
            .arg(&server.data)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let line = lines.next().unwrap().unwrap();
        let seen: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&seen["tool"], &seen["arguments"]["n"]), (&"wipe".into(), &n.into()));
        let id = seen["id"].as_str().unwrap();
        assert!(run_cli(&server, &["approval", "list"]).expect_success().contains(id));
        assert!(
            run_cli(&server, &["approval", "show", id])
                .expect_success()
                .contains("wipe (source local)")
        );
        assert_eq!(bench.run_count(n), 0);
        let more: &[&str] = match how {
            "deny" => &["--reason", "not today"],
            "edit" => &["--args", r#"{"n": 33}"#, "--approve"],
            _ => &[],
        };
        run_cli(&server, &[&["approval", how, id], more].concat()).expect_success();
        let ended = call.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(expected), "{how}: {err}");
        if how == "deny" {
            assert!(err.contains("approval_denied") && err.contains("not today"), "{err}");
        }
    }
    watch.kill().unwrap();
    watch.wait().unwrap();
    assert_eq!(
        (bench.run_count(1), bench.run_count(2), bench.run_count(3), bench.run_count(33)),
        (1, 0, 0, 1)
    );
    assert!(server.stop().await.success());
}

/// Without a server the commands do the work themselves, one after the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_held_call_outlives_the_commands() {
    let bench = ApprovalHome::new("");
    let run = |words: &[&str]| {
        let mut command = toolkeep();
        command.args(words).arg("--data").arg(bench.home.data());
        crate::real_support::CommandOutput::run_command(
            command.arg("--config").arg(bench.home.config()),
        )
    };
    // The first server creates the first keys.
    assert!(start_server(&bench.home).await.stop().await.success());
    let held = run(&["tool", "call", "wipe", "n=5", "--agent", "-o", "json"]);
    assert_eq!(held.code, Some(3), "{held:?}");
    let id = held.json()["call_id"].as_str().unwrap().to_owned();
    // A server that starts later resumes it.
    let server = start_server(&bench.home).await;
    assert_eq!(wait_for_pending(&server.owner()).await, id);
    assert!(server.stop().await.success());
    // The owner's own call, by this same door, is another's to decide.
    let own = run(&["tool", "call", "wipe", "n=6", "-o", "json"]).json();
    let refused = run(&["approval", "approve", own["call_id"].as_str().unwrap()]);
    assert!(refused.code == Some(3) && refused.err.contains("own call"), "{refused:?}");
    run(&["approval", "approve", &id]).expect_success();
    assert_eq!((bench.run_count(5), bench.run_count(6)), (1, 0));
    let shown = run(&["record", "show", &id]).expect_success();
    assert!(shown.contains("succeeded") && shown.contains("approved"), "{shown}");
    let missing = run(&["approval", "show", "01980000-0000-7000-8000-000000000000"]);
    assert_eq!(missing.code, Some(3));
}
