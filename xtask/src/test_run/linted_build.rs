//! Builds all tests once, with clippy as the compiler of the workspace's crates.
//!
//! `cargo clippy` beside `cargo test` compiles every crate twice: the checks of dependencies are of
//! no use to a build. Clippy's driver is rustc with more lints, so the tests are built with it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::child_processes::{run_for_output, run_with_progress};

/// Cargo's variable for the compiler of the workspace's own crates.
const WRAPPER_VARIABLE: &str = "RUSTC_WORKSPACE_WRAPPER";

/// Returns the path of clippy's driver in the toolchain of this checkout.
///
/// # Errors
/// If the toolchain has no clippy.
pub(super) fn find_clippy(root_dir: &Path) -> Result<PathBuf, String> {
    let mut rustc = Command::new("rustc");
    let sysroot = run_for_output(rustc.args(["--print", "sysroot"]).current_dir(root_dir))?;
    let driver = Path::new(&sysroot).join("bin/clippy-driver");
    let missing = "this toolchain has no clippy; run `rustup component add clippy`";
    driver.is_file().then_some(driver).ok_or_else(|| missing.to_owned())
}

/// Makes `cargo_command` compile the workspace's crates with clippy.
///
/// All commands of a run need it: cargo builds again what another compiler has built.
pub(super) fn set_compiler(cargo_command: &mut Command, driver: &Path) {
    cargo_command.env(WRAPPER_VARIABLE, driver);
}

/// Builds all targets by `cargo_command`, a `cargo test` with its profile, and prints each finding of rustc and clippy
/// once.
///
/// # Errors
/// If there is a finding, or a crate does not compile.
pub(super) fn build_tests(cargo_command: &mut Command) -> Result<(), String> {
    cargo_command.args(["--no-run", "--workspace", "--all-targets", "--locked"]);
    cargo_command.args(["--message-format", "json-diagnostic-rendered-ansi"]);
    let output = run_with_progress(cargo_command)?;
    let findings = parse_findings(&output.stdout_text);
    for finding in &findings {
        println!("{finding}");
    }
    if !output.status.success() {
        return Err("the tests do not compile".to_owned());
    }
    match findings.len() {
        0 => Ok(()),
        count => Err(format!("{count} findings of rustc and clippy")),
    }
}

/// Returns the warnings and errors in cargo's messages, without duplicates: the library and its
/// tests have the same ones.
fn parse_findings(messages: &str) -> BTreeSet<String> {
    let parsed = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let diagnostics = parsed.filter_map(|mut message| {
        let is_diagnostic = message.get("reason")? == "compiler-message";
        is_diagnostic.then(|| message.get_mut("message").map(Value::take)).flatten()
    });
    diagnostics
        .filter(|diagnostic| {
            let level = diagnostic.get("level").and_then(Value::as_str).unwrap_or_default();
            // A crate's last message counts the ones before it, and has no place.
            let has_place = diagnostic.get("spans").and_then(Value::as_array);
            level == "error" || (level == "warning" && has_place.is_some_and(|it| !it.is_empty()))
        })
        .filter_map(|diagnostic| Some(diagnostic.get("rendered")?.as_str()?.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{find_clippy, parse_findings, set_compiler};

    #[test]
    fn findings_are_counted_once_and_other_messages_are_none() {
        let message = |level: &str, spans: &str, text: &str| {
            format!(
                r#"{{"reason":"compiler-message","message":{{"level":"{level}","spans":{spans},"rendered":"{text}"}}}}"#
            )
        };
        let lines = [
            message("warning", "[{}]", "unused"),
            message("warning", "[{}]", "unused"),
            message("warning", "[]", "1 warning emitted"),
            message("note", "[{}]", "note"),
            message("error", "[]", "wrong"),
            r#"{"reason":"compiler-artifact","message":{"level":"error","rendered":"no"}}"#
                .to_owned(),
            "not JSON".to_owned(),
        ];
        let found: Vec<_> = parse_findings(&lines.join("\n")).into_iter().collect();
        assert_eq!(found, ["unused", "wrong"]);
    }

    #[test]
    fn the_driver_compiles_and_finds_what_rustc_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let source = "//! A crate.\n/// Returns whether it is empty.\npub fn check(list: &[u8]) -> bool {\n    list.len() == 0\n}\n";
        std::fs::create_dir(folder.path().join("src")).unwrap();
        std::fs::write(folder.path().join("src/lib.rs"), source).unwrap();
        let manifest = "[package]\nname = \"linted\"\nedition = \"2024\"\n[workspace]\n";
        std::fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
        let build = |set: &dyn Fn(&mut Command)| {
            let mut cargo = Command::new(crate::workspace::cargo_program());
            cargo.args(["build", "--offline", "--message-format", "json"]);
            cargo.current_dir(folder.path()).env("CARGO_TARGET_DIR", folder.path().join("out"));
            cargo.env_remove("RUSTC_WRAPPER").env_remove(super::WRAPPER_VARIABLE);
            set(&mut cargo);
            let output = cargo.output().unwrap();
            assert!(output.status.success(), "{output:?}");
            parse_findings(&String::from_utf8(output.stdout).unwrap())
        };
        let plain = build(&|_| ());
        assert!(plain.is_empty(), "{plain:?}");
        let driver = find_clippy(folder.path()).unwrap();
        let found: Vec<_> = build(&|cargo| set_compiler(cargo, &driver)).into_iter().collect();
        assert!(matches!(&found[..], [one] if one.contains("clippy::len_zero")), "{found:?}");
        // It also made the library, not only its metadata.
        let made = std::fs::read_dir(folder.path().join("out/debug")).unwrap();
        let names: Vec<_> = made.map(|entry| entry.unwrap().file_name()).collect();
        assert!(names.iter().any(|name| name == "liblinted.rlib"), "{names:?}");
        // The same finding again, though nothing is compiled.
        assert_eq!(build(&|cargo| set_compiler(cargo, &driver)).len(), 1);
    }
}
