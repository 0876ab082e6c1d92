//! Tests of the `record` commands.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use crate::command_runner::CommandHome;
use crate::real_support::run_cli;
use crate::support::installation::Installation as Place;
use crate::support::server_process::{Server, start_server};

fn with_calls() -> CommandHome {
    let home = CommandHome::new();
    for text in ["message=one", "message=two"] {
        assert_eq!(home.run(&["tool", "call", "echo", text]).code, 0);
    }
    home
}

#[test]
fn a_record_that_nobody_touched_is_whole() {
    let home = with_calls();
    let ran = home.run(&["record", "verify", "-o", "json"]);
    let report = ran.json();
    assert_eq!((ran.code, &report["sound"]), (0, &true.into()), "{}", ran.out);
    let (intents, outcomes) = (&report["writers"][0]["intents"], &report["writers"][0]["outcomes"]);
    assert_eq!((intents, outcomes), (&2.into(), &2.into()));
    assert!(report["limits"].as_str().unwrap().contains("stored elsewhere"));
    assert!(home.run(&["record", "verify"]).out.contains("the record is intact"));
}

#[test]
fn one_changed_byte_is_found_with_its_place() {
    let home = with_calls();
    let segment = fs::read_dir(home.data("records")).unwrap().map(|entry| entry.unwrap().path());
    let segment = segment.filter(|path| fs::metadata(path).unwrap().len() > 1000).min().unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    let at = bytes.windows(4).position(|window| window == b"echo").unwrap();
    bytes[at] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let ran = home.run(&["record", "verify"]);
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(
        ran.out.contains(" at byte ") && ran.out.contains("the record is damaged"),
        "{}",
        ran.out
    );
}

#[test]
fn a_record_put_back_to_an_older_state_is_found_by_what_was_kept() {
    let home = with_calls();
    let old = home.path("old");
    copy(&home, &old, true);
    assert_eq!(home.run(&["tool", "call", "echo", "message=three"]).code, 0);
    home.write("kept.json", &home.run(&["record", "verify", "-o", "json"]).out);
    let kept = ["record", "verify", "--kept", "kept.json"];
    let ran = home.run(&kept);
    assert!(
        ran.code == 0 && ran.out.contains("1 checkpoint stored elsewhere"),
        "{}{}",
        ran.out,
        ran.err
    );
    copy(&home, &old, false);
    assert_eq!(home.run(&["record", "verify"]).code, 0, "by itself the old record looks whole");
    assert_eq!(home.run(&kept).code, 1);
}

#[test]
fn one_call_is_shown_with_all_its_records() {
    let home = with_calls();
    let list = home.run(&["record", "list", "-o", "json"]).json();
    let call = list["records"][0]["call"].as_str().unwrap().to_owned();
    let ran = home.run(&["record", "show", &call]);
    for part in
        ["status      succeeded", "tool        echo", "  intent  ", "  outcome  ", "args_bytes"]
    {
        assert!(ran.code == 0 && ran.out.contains(part), "{part}: {}{}", ran.out, ran.err);
    }
    let ran = home.run(&["record", "show", "nope"]);
    assert!(ran.code == 3 && ran.err.contains("`toolkeep record list`"), "{}", ran.err);
}

#[test]
fn the_record_is_followed_until_it_is_interrupted() {
    let home = CommandHome::new();
    let alone = home.run(&["record", "tail"]);
    assert!(alone.code == 4 && alone.err.contains("no server is running"), "{}", alone.err);
    let _serving = home.serve(&[]);
    assert_eq!(home.run(&["tool", "call", "echo", "message=old"]).code, 0);
    let mut tail = home.follow(&["record", "tail", "-o", "json", "-n", "2", "--every-ms", "100"]);
    let kind = |line: String| {
        let record: serde_json::Value = serde_json::from_str(&line).unwrap();
        record["kind"].as_str().unwrap().to_owned()
    };
    assert_eq!([kind(tail.line()), kind(tail.line())], ["intent", "outcome"]);
    assert_eq!(home.run(&["tool", "call", "echo", "message=new"]).code, 0);
    assert_eq!([kind(tail.line()), kind(tail.line())], ["intent", "outcome"]);
    assert_eq!(tail.interrupt(), 0);
}

fn copy(home: &CommandHome, old: &std::path::Path, out: bool) {
    let records = home.data("records");
    let (from, to) = if out { (records.as_path(), old) } else { (old, records.as_path()) };
    drop(fs::remove_dir_all(to));
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn what_cannot_be_checked_is_told() {
    let home = CommandHome::new();
    let ran = home.run(&["record", "verify"]);
    assert!(ran.code == 3 && ran.err.contains("no record in"), "{}", ran.err);
    home.write("kept.json", "{}");
    assert_eq!(home.run(&["record", "verify", "--kept", "kept.json"]).code, 2);
    home.write("kept.json", r#"{"writers": [], "findings": [], "more_findings": 0}"#);
    let ran = home.run(&["record", "verify", "--kept", "kept.json"]);
    assert!(ran.code == 2 && ran.err.contains("contains no checkpoint"), "{}", ran.err);
}

#[test]
fn a_signed_checkpoint_shows_an_older_record_put_back_and_a_forged_one_is_refused() {
    let home = with_calls();
    let old = home.path("old");
    copy(&home, &old, true);
    assert_eq!(home.run(&["tool", "call", "echo", "message=three"]).code, 0);
    let note = home.run(&["record", "checkpoint"]).out;
    home.write("kept.txt", &note);
    home.write("key", &home.run(&["record", "checkpoint", "--public"]).out);
    let own = ["record", "verify", "--checkpoint", "kept.txt", "-o", "json"];
    let report = home.run(&own).json();
    assert_eq!(report["writers"][0]["kept"], 1, "{report}");
    // A key stored beside the record proves less, as the output states.
    assert!(
        report["not_proved"].to_string().contains("the signing key is stored beside the record"),
        "{report}"
    );
    let given = ["record", "verify", "--checkpoint", "kept.txt", "--signer", "key", "-o", "json"];
    let report = home.run(&given).json();
    assert!(!report["not_proved"].to_string().contains("beside the record"), "{report}");
    assert!(
        report["proved"].to_string().contains("1 checkpoint stored elsewhere is consistent"),
        "{report}"
    );
    // One number changed in it, or another's key.
    let size = note.lines().nth(1).unwrap();
    let forged = note.replacen(&format!("\n{size}\n"), &format!("\n{size}1\n"), 1);
    home.write("forged.txt", &forged);
    let ran = home.run(&["record", "verify", "--checkpoint", "forged.txt", "--signer", "key"]);
    assert!(ran.code == 1 && ran.err.contains("invalid checkpoint"), "{}", ran.err);
    let other = CommandHome::new();
    assert_eq!(other.run(&["tool", "call", "echo", "message=one"]).code, 0);
    let other = other.run(&["record", "checkpoint", "--public"]).out;
    let ran = home.run(&["record", "verify", "--checkpoint", "kept.txt", "--signer", other.trim()]);
    assert!(ran.code == 2 && ran.err.contains("no checkpoint that this key signed"), "{}", ran.err);
    copy(&home, &old, false);
    assert_eq!(home.run(&["record", "verify"]).code, 0, "by itself it is whole");
    let ran = home.run(&given);
    assert!(ran.code == 1 && ran.out.contains("an older copy was restored"), "{}", ran.out);
}

#[test]
fn the_record_is_exported_line_by_line() {
    let home = with_calls();
    let ran = home.run(&["record", "export"]);
    let lines: Vec<serde_json::Value> =
        ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds = |kind: &str| lines.iter().filter(|line| line["kind"] == kind).count();
    assert_eq!((kinds("intent"), kinds("outcome")), (2, 2), "{}", ran.out);
    assert!(lines.iter().all(|line| line["writer"] == "main"));
    let last = lines.last().unwrap()["seq"].to_string();
    assert_eq!(home.run(&["record", "export", "--from", &last]).out.lines().count(), 1);
}

/// Makes so many calls; keeps the checkpoint that is signed after the first hundred.
async fn busy(server: &Server, calls: usize, old: &Path) {
    let agent = server.agent();
    let signed = server.data.join("records/main.checkpoint");
    for call in 0..calls {
        let body = json!({ "message": "x".repeat(64) });
        assert_eq!(agent.call("echo", &body).await.status, 200);
        if call == 100 {
            until(|| signed.exists()).await;
            fs::copy(&signed, old).unwrap();
        }
    }
}

async fn until(holds: impl Fn() -> bool) {
    for _ in 0..3_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it never comes");
}

fn tombs(server: &Server) -> usize {
    let names = fs::read_dir(server.data.join("records")).unwrap().map(Result::unwrap);
    names.filter(|it| it.path().extension().is_some_and(|end| end == "tomb")).count()
}

/// A proof verifies without the record, and fails if one hash is changed.
fn prove(server: &Server, home: &Place, [old, new]: [&str; 2]) {
    let proof = home.path("proof.json").display().to_string();
    let made = run_cli(server, &["record", "proof", "--old", old, "--new", new, "-o", "json"])
        .expect_success();
    fs::write(&proof, &made).unwrap();
    let key = run_cli(server, &["record", "checkpoint", "--public"]).expect_success();
    let words = ["record", "proof", "--old", old, "--new", new, "--signer", key.trim()];
    let check = [&words[..], &["--check", &proof]].concat();
    assert!(run_cli(server, &check).expect_success().starts_with("proved: "));
    let hash = made.split("sha256:").nth(1).unwrap().split('"').next().unwrap();
    let other: String = hash.chars().rev().collect();
    fs::write(&proof, made.replacen(hash, &other, 1)).unwrap();
    let ran = run_cli(server, &check);
    assert!(ran.code == Some(1) && ran.err.contains("does not match the"), "{ran:?}");
    fs::write(&proof, made.replacen("sha256:", "sha256:0", 1)).unwrap();
    assert_eq!(run_cli(server, &check).code, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_to_be_kept_goes_while_the_server_runs_and_the_rest_is_proved() {
    let home = Place::new("version: 1\nrecords: { file: 64KiB }\n");
    let server = start_server(&home).await;
    let path = |name: &str| home.path(name).display().to_string();
    let (old, new, file) = (path("old.txt"), path("new.txt"), home.config().display().to_string());
    busy(&server, 3_000, &home.path("old.txt")).await;
    let doctor = || run_cli(&server, &["doctor", "--config", &file]).out;
    assert!(doctor().contains("no retention limit"), "{}", doctor());
    // Read while it runs.
    let keep = "version: 1\nrecords: { file: 64KiB, keep: { bytes: 1MiB } }\n";
    fs::write(home.config(), keep).unwrap();
    until(|| tombs(&server) > 0).await;
    assert!(doctor().contains("removed by retention, up to record"), "{}", doctor());
    fs::copy(server.data.join("records/main.checkpoint"), home.path("new.txt")).unwrap();
    let both = ["record", "verify", "--checkpoint", &old, "--checkpoint", &new];
    let ran = run_cli(&server, &both).expect_success();
    for told in ["retention removed", "2 checkpoints stored elsewhere", "only an export or a copy"]
    {
        assert!(ran.contains(told), "{told}: {ran}");
    }
    prove(&server, &home, [&old, &new]);
    // The tombstones of a server that is gone are checked as well.
    assert!(server.stop().await.success());
    let again = start_server(&home).await;
    assert_eq!(again.agent().call("echo", &json!({ "message": "y" })).await.status, 200);
    assert!(run_cli(&again, &both).expect_success().contains("the record is intact"));
    assert!(again.stop().await.success());
}
