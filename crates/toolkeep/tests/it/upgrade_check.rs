//! Tests of `toolkeep upgrade --check`, and of starts in data directories of other versions.

mod older_formats;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::command_runner::{CommandHome, ProgramOutput};
use crate::refused_kernel::run_without;
use older_formats::{make_older, set_segment_version, set_store_version};

/// A data directory of this version, with two records.
fn used_home() -> CommandHome {
    let home = CommandHome::new();
    let called = home.run(&["tool", "call", "calculator", "expression=6*7"]);
    assert_eq!(called.code, 0, "{}", called.err);
    home
}

fn check(home: &CommandHome) -> (i32, Value) {
    let ran = home.run(&["upgrade", "--check", "-o", "json"]);
    (ran.code, ran.json())
}

/// The state of each format by its name.
fn states(report: &Value) -> BTreeMap<String, String> {
    let formats = report["formats"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    formats.map(|format| (text(&format["name"]), text(&format["state"]))).collect()
}

fn named<const N: usize>(states: [(&str, &str); N]) -> BTreeMap<String, String> {
    states.map(|(name, state)| (name.to_owned(), state.to_owned())).into()
}

/// Content of every file below a folder but SQLite's index of its log, which readers write too.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            pending.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if !path.to_string_lossy().ends_with("-shm") {
            found.insert(path.display().to_string(), std::fs::read(&path).unwrap());
        }
    }
    // An empty log has nothing that the file has not.
    found.retain(|path, bytes| !(path.ends_with("-wal") && bytes.is_empty()));
    found
}

#[test]
fn a_new_and_a_used_directory_are_told_apart() {
    let home = CommandHome::new();
    let (code, report) = check(&home);
    assert_eq!((code, &report["usable"], &report["reversible"]), (0, &json!(true), &json!(true)));
    assert!(states(&report).values().all(|state| state == "absent"), "{report}");
    assert!(!home.data("").exists(), "a check creates nothing");
    let text = home.run(&["upgrade", "--check"]).out;
    assert!(text.ends_with("There is no data yet. The first start creates it.\n"), "{text}");

    let home = used_home();
    let (code, report) = check(&home);
    let current = named([
        ("store", "current"),
        ("row MACs", "current"),
        ("record", "current"),
        ("record filters", "absent"),
    ]);
    assert_eq!((code, states(&report)), (0, current), "{report}");
    assert_eq!((&report["usable"], &report["reversible"]), (&json!(true), &json!(true)));
    assert_eq!(report["configuration"], json!({ "file": null, "state": "valid", "problems": [] }));
    assert_eq!(
        report["formats"][0],
        json!({
            "name": "store", "files": "store.db", "found": [{ "version": 2, "files": 1 }],
            "reads_from": 1, "writes": 2, "state": "current", "older_programs_read_it": true,
        })
    );
}

#[test]
fn a_directory_of_an_older_version_is_read_and_its_first_start_says_what_it_changes() {
    let home = used_home();
    make_older(&home.data(""));
    let before = contents(&home.data(""));
    let (code, report) = check(&home);
    let older = named([
        ("store", "older"),
        ("row MACs", "absent"),
        ("record", "older"),
        ("record filters", "absent"),
    ]);
    assert_eq!((code, states(&report)), (0, older), "{report}");
    assert_eq!((&report["usable"], &report["reversible"]), (&json!(true), &json!(false)));
    let text = home.run(&["upgrade", "--check"]).out;
    assert!(text.contains("an older program cannot: stop the server and back up"), "{text}");
    assert!(before == contents(&home.data("")), "the check changed the directory");

    // Any command without a server is a first start, and says it too.
    let listed = home.run(&["record", "list", "-o", "json"]);
    assert_eq!(listed.code, 0, "{}", listed.err);
    for change in ["store (store.db): found format 1", "row MACs (store.macs)", "record (records/"]
    {
        assert!(listed.err.contains(change), "{change}: {}", listed.err);
    }
    assert_eq!(listed.err.matches("older versions of toolkeep cannot read").count(), 3);
    assert_eq!(listed.json()["records"].as_array().unwrap().len(), 2, "{}", listed.out);
    let verified = home.run(&["record", "verify"]);
    assert!(
        verified.code == 0 && verified.out.contains("the record is intact"),
        "{}",
        verified.out
    );

    // Control: a second start has nothing to say.
    let again = home.run(&["record", "list"]);
    assert_eq!((again.code, again.err.as_str()), (0, ""));
    let (_, report) = check(&home);
    assert!(states(&report).values().all(|state| state != "older"), "{report}");
    assert_eq!(report["reversible"], json!(true));
}

/// Expects the error of a start in a directory of a newer version.
fn expect_refusal(ran: &ProgramOutput, files: &str) {
    assert_eq!(ran.code, 4, "{}", ran.err);
    let reason = "a newer version of toolkeep wrote it";
    assert!(ran.err.contains(files) && ran.err.contains(reason), "{}", ran.err);
}

#[test]
fn a_directory_of_a_newer_version_is_refused_before_anything_is_written() {
    let home = used_home();
    make_older(&home.data(""));
    // The record is newer, while the store alone would be migrated.
    set_segment_version(&home.data("records"), 3);
    let before = contents(&home.data(""));
    let (code, report) = check(&home);
    assert_eq!((code, &report["usable"]), (1, &json!(false)));
    let states = states(&report);
    assert_eq!((states["record"].as_str(), states["store"].as_str()), ("unreadable", "older"));
    let text = home.run(&["upgrade", "--check"]);
    assert!(text.code == 1 && text.out.contains("cannot use the data directory"), "{}", text.out);
    expect_refusal(&home.run(&["record", "list"]), "records/*.seg");
    let mut after = contents(&home.data(""));
    // The lock names its last holder.
    let lock = home.data("server.lock").display().to_string();
    after.insert(lock.clone(), before[&lock].clone());
    assert!(before == after, "a refused start changed the directory");

    // The same for the store, with a record that this program reads.
    set_segment_version(&home.data("records"), 2);
    set_store_version(&home.data("store.db"), 3);
    expect_refusal(&home.run(&["record", "list"]), "store.db");
    // Control: a version that this program reads.
    set_store_version(&home.data("store.db"), 1);
    assert_eq!(home.run(&["record", "list"]).code, 0);
}

#[test]
fn a_configuration_is_checked_without_a_start() {
    let home = used_home();
    home.write("toolkeep.yaml", "version: 1\nsources: [{ name: a, tools: missing.yaml }]\n");
    let (code, report) = check(&home);
    assert_eq!((code, &report["configuration"]["state"]), (0, &json!("partial")), "{report}");
    assert_eq!(report["configuration"]["problems"].as_array().unwrap().len(), 1, "{report}");
    home.write("toolkeep.yaml", "version: 1\nlisten: nowhere\n");
    let (code, report) = check(&home);
    assert_eq!((code, &report["configuration"]["state"]), (1, &json!("invalid")), "{report}");
    assert_eq!(states(&report)["store"], "current", "the data is reported all the same");
}

#[test]
fn the_check_beside_a_running_server_names_its_version() {
    let home = CommandHome::new();
    let serving = home.serve(&[]);
    let (code, report) = check(&home);
    assert_eq!((code, &report["running"]), (0, &json!(env!("CARGO_PKG_VERSION"))), "{report}");
    assert_eq!(serving.end(), 0);
}

/// A kernel that gives out no sockets of the network makes no difference.
#[test]
fn the_check_uses_no_network() {
    let home = used_home();
    let module = "version: 1\nsources: [{ name: a, module: \"http://127.0.0.1:9\" }]\n";
    home.write("toolkeep.yaml", module);
    let line = ["upgrade", "--check", "-o", "json"];
    let ran = run_without(&home, "network", &line);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(ran.json(), home.run(&line).json());
    // Control: a command that asks a server.
    let serving = home.serve(&[]);
    let address = serving.address();
    let status = ["status", "--url", &address];
    assert_eq!(home.run(&status).code, 0);
    let refused = run_without(&home, "network", &status);
    assert!(refused.code == 4 && refused.err.contains("cannot connect"), "{}", refused.err);
}

#[test]
fn the_program_is_never_replaced() {
    let ran = CommandHome::new().run(&["upgrade"]);
    assert!(ran.code == 2 && ran.err.contains("--check"), "{}", ran.err);
}
