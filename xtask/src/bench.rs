//! `cargo xtask bench`: builds what is measured in release and hands over to the `bench` crate.

use std::process::Command;

use crate::children::shown;
use crate::workspace::{Workspace, cargo};

/// Runs `bench` with `words`.
///
/// # Errors
/// Where it does not build or fails.
pub(crate) fn run(workspace: &Workspace, words: &[&str]) -> Result<(), String> {
    let mut command = Command::new(cargo());
    command.current_dir(&workspace.root);
    command.args(["run", "--release", "--locked", "--package", "bench", "--"]).args(words);
    let ended = shown(&mut command)?;
    if ended.status.success() { Ok(()) } else { Err("bench failed".to_owned()) }
}
