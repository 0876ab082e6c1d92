//! Tests with attack inputs from outside this repository, row by row. Fails if they are missing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

/// Returns the files that successful attacks leave behind.
fn marks() -> Vec<PathBuf> {
    let ours = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("gw_pwned") || name.contains("garak.pwnd")
    };
    let entries = std::fs::read_dir("/tmp").unwrap().flatten();
    entries.map(|entry| entry.path()).filter(|path| ours(path)).collect()
}

/// Returns the output of a program that runs without protection; `None` if it is not installed.
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
