//! Tests of `toolkeep version` and `toolkeep status`, and of the health checks of the images.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::command_runner::CommandHome;
use crate::refused_kernel::run_without;

#[test]
fn the_version_describes_the_build_and_the_machine() {
    let home = CommandHome::new();
    let ran = home.run(&["version", "-o", "json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let found = ran.json();
    let keys: BTreeSet<_> = found.as_object().unwrap().keys().map(String::as_str).collect();
    let wanted = [
        "commit", "features", "formats", "profile", "sandbox", "sources", "stores", "target",
        "version",
    ];
    assert_eq!(keys, wanted.into());
    assert_eq!(found["version"], env!("CARGO_PKG_VERSION"));
    let profile = if cfg!(debug_assertions) { "debug" } else { "plain" };
    assert_eq!((&found["profile"], &found["features"]), (&json!(profile), &json!([])));
    assert!(found["commit"].is_null(), "no variable of the build named one: {found}");
    assert_eq!(
        found["sources"],
        json!(["builtin", "mcp", "module", "node", "plugin", "tool_file"])
    );
    assert_eq!(found["stores"], json!(["files", "mongodb", "redis", "sqlite"]));
    assert_eq!(
        found["formats"],
        json!([
            { "name": "store", "reads_from": 1, "writes": 2 },
            { "name": "row MACs", "reads_from": 1, "writes": 1 },
            { "name": "record", "reads_from": 1, "writes": 2 },
            { "name": "record filters", "reads_from": 4, "writes": 4 },
        ])
    );
    let text = home.run(&["version"]).out;
    for line in
        ["  commit    unknown", "  stores    files, mongodb, redis, sqlite", "  sandbox   whole ("]
    {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(text.starts_with(&home.run(&["--version"]).out), "{text}");
    assert!(!home.data("").exists(), "it needs no data directory");
}

#[test]
fn a_configuration_with_errors_does_not_hide_the_version() {
    let home = CommandHome::new();
    home.write("toolkeep.yaml", "version: one\n");
    let ran = home.run(&["version"]);
    assert!(ran.code == 0 && ran.out.contains("  target    "), "{}{}", ran.out, ran.err);
}

/// Detail of the finding `sandbox` of `doctor`, and the sandbox of `version`.
fn sandbox(home: &CommandHome, what: &str) -> (String, Value) {
    let doctor = run_without(home, what, &["doctor", "-o", "json"]).json();
    let mut findings = doctor["findings"].as_array().unwrap().iter();
    let detail = findings.find(|it| it["what"] == "sandbox").unwrap()["detail"].as_str().unwrap();
    let version = run_without(home, what, &["version", "-o", "json"]).json();
    (detail.to_owned(), version["sandbox"].clone())
}

#[test]
fn version_and_doctor_report_the_same_tier() {
    let home = CommandHome::new();
    home.write("toolkeep.yaml", "version: 1\nserver: { min_sandbox: fenced }\n");
    let (doctor, version) = sandbox(&home, "nothing");
    let attempts = &version["tiers"][0]["escape_attempts"];
    assert_eq!(version["tier"], "whole", "{version}");
    assert!(doctor.starts_with(&format!("whole: {attempts} escape attempts failed")), "{doctor}");
    assert_eq!(version["tiers"][1], json!({ "tier": "fenced", "state": "not_tried" }));
    let (doctor, version) = sandbox(&home, "namespaces");
    assert_eq!(version["tier"], "fenced", "{version}");
    assert!(doctor.starts_with("fenced: "), "{doctor}");
    assert_eq!(version["tiers"][0]["state"], "unavailable");
    assert!(version["tiers"][0]["reason"].is_string(), "{version}");
    let (doctor, version) = sandbox(&home, "landlock");
    assert_eq!((&version["tier"], &version["landlock"]), (&json!(null), &json!(0)), "{version}");
    assert!(doctor.contains("are unavailable"), "{doctor}");
}

#[test]
fn the_status_of_a_server_needs_no_key_and_starts_none() {
    let home = CommandHome::new();
    let none = home.run(&["status"]);
    assert!(none.code == 4 && none.err.contains("no server is running"), "{}", none.err);
    assert!(!home.data("").exists(), "a status starts nothing");
    let serving = home.serve(&[]);
    let address = serving.address();
    let ready = home.run(&["status"]);
    assert_eq!((ready.code, ready.out), (0, format!("ready: {address}\n")), "{}", ready.err);
    assert_eq!(
        home.run(&["status", "-o", "json"]).json(),
        json!({ "address": address, "status": "ready", "attention": [] })
    );
    std::fs::remove_file(home.data("owner.key")).unwrap();
    let keyless = home.run(&["status", "-o", "json"]);
    assert_eq!(keyless.json(), json!({ "address": address, "status": "ready" }), "without a key");
    // The server keeps its last valid configuration.
    home.write("toolkeep.yaml", "version: one\n");
    assert_eq!(home.run(&["status"]).code, 0, "with an invalid configuration");
    // A killed server leaves its description behind.
    serving.kill();
    assert_eq!(home.run(&["status"]).code, 4);
    assert_eq!(home.run(&["status", "--url", &address]).code, 4);
}

/// The command of the health check in an image file, and the path of its program.
fn health_check(file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(format!("{}/../../{file}", env!("CARGO_MANIFEST_DIR")));
    let text = text.unwrap().replace("\\\n", "");
    let line = text.lines().find(|line| line.starts_with("HEALTHCHECK ")).unwrap().to_owned();
    let (_, list) = line.split_once("CMD ").unwrap();
    serde_json::from_str(list).unwrap()
}

#[test]
fn the_health_check_of_each_image_is_a_command_of_the_program() {
    for (file, program) in [
        ("deploy/Dockerfile", "/usr/local/bin/toolkeep"),
        ("dist/Containerfile", "/usr/bin/toolkeep"),
    ] {
        let words = health_check(file);
        assert_eq!(words[0], program, "{file}");
        let line: Vec<_> = words[1..].iter().map(String::as_str).collect();
        let home = CommandHome::new();
        assert_ne!(home.run(&line).code, 0, "{file}: healthy without a server");
        // At another address than the one of the image.
        let serving = home.serve(&[]);
        assert_eq!(home.run(&line).code, 0, "{file}");
        assert_eq!(serving.end(), 0);
        assert_ne!(home.run(&line).code, 0, "{file}: healthy after the end");
    }
}
