//! The test runner: the machine's own, or one of ours in the target folder.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::children::{quiet, shown};
use crate::pins;
use crate::workspace::{Workspace, cargo};

/// How often an installation is tried: registries have bad minutes.
const TRIES: u32 = 3;

/// Makes sure that `cargo nextest` runs; says what was installed for it.
pub(crate) fn nextest(workspace: &Workspace) -> Result<Option<String>, String> {
    if works(workspace) {
        return Ok(None);
    }
    let root = workspace.target.join("tools");
    let wanted = format!("cargo-nextest {}", pins::NEXTEST);
    println!("installing {wanted} into {}: this machine has none", root.display());
    retry(&wanted, || {
        let mut install = Command::new(cargo());
        install.args(["install", "--locked", "cargo-nextest", "--version", pins::NEXTEST]);
        // Without what lets it update itself: TLS and HTTP are half of the build.
        install.args(["--no-default-features", "--features", "default-no-update", "--root"]);
        // Its own build folder: features that differ must not rebuild ours.
        install.arg(&root).env("CARGO_TARGET_DIR", root.join("build"));
        shown(&mut install).map(|ended| ended.status.success())
    })?;
    drop(std::fs::remove_dir_all(root.join("build")));
    if works(workspace) { Ok(Some(wanted)) } else { Err(format!("{wanted} does not start")) }
}

fn works(workspace: &Workspace) -> bool {
    let mut ask = Command::new(cargo());
    ask.args(["nextest", "--version"]).env("PATH", path(&workspace.target));
    quiet(&mut ask).is_ok_and(|ended| ended.status.success())
}

/// The search path with our own tools in front.
pub(crate) fn path(target: &Path) -> OsString {
    let own = target.join("tools/bin");
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(own).chain(std::env::split_paths(&rest));
    std::env::join_paths(all).unwrap_or(rest)
}

/// Tries `step` until it says yes, with a growing pause between.
pub(crate) fn retry(
    what: &str,
    mut step: impl FnMut() -> Result<bool, String>,
) -> Result<(), String> {
    for attempt in 1..=TRIES {
        if step()? {
            return Ok(());
        }
        println!("attempt {attempt} of {TRIES} to install {what} failed");
        thread::sleep(Duration::from_secs(u64::from(attempt) * 3));
    }
    Err(format!("{what} could not be installed in {TRIES} attempts; the reason stands above"))
}
