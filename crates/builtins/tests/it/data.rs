//! Attack inputs that are kept outside of this repository, row by row. Where they are absent nothing is
//! proven: the test says so, and fails where `TOOLKEEP_REQUIRE_DATA` asks for them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::de::DeserializeOwned;

mod archives;
mod commands;
mod paths;
mod patterns;
mod python;
mod scenarios;
mod sql;
mod table;
mod torture;
mod urls;

/// The rows of a file under `TOOLKEEP_DATA`, or else beside the workspace.
fn rows<T: DeserializeOwned>(file: &str) -> Option<Vec<T>> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let folder =
        std::env::var_os("TOOLKEEP_DATA").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let path = folder.join("attacks").join(file);
    match std::fs::read_to_string(&path) {
        Ok(text) => Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()),
        Err(error) => {
            let required =
                std::env::var_os("TOOLKEEP_REQUIRE_DATA").is_some_and(|word| word == "1");
            assert!(!required, "{}: {error}; set TOOLKEEP_DATA", path.display());
            println!("not run: {}: {error}", path.display());
            None
        }
    }
}

/// What attacks leave behind where they succeed.
fn marks() -> Vec<PathBuf> {
    let ours = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("gw_pwned") || name.contains("garak.pwnd")
    };
    let entries = std::fs::read_dir("/tmp").unwrap().flatten();
    entries.map(|entry| entry.path()).filter(|path| ours(path)).collect()
}

/// What a program says that is run as it would be without any care; nothing where it is not there.
fn naive(program: &str, args: &[&str], folder: &Path) -> Option<(bool, String)> {
    let output = Command::new("timeout")
        .args(["3", program])
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some((output.status.success(), text))
}
