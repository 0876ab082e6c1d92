//! Test runner `cargo nextest`: the installed one, or a pinned one in the target folder.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::child_processes::{run_quiet, run_visible};
use crate::pinned_versions;
use crate::workspace::{Workspace, cargo_program};

/// Maximum number of attempts of an installation, because registries fail temporarily.
const MAX_ATTEMPTS: u32 = 3;

/// Ensures that `cargo nextest` runs. Returns what was installed for it, if anything.
pub(crate) fn ensure_nextest(workspace: &Workspace) -> Result<Option<String>, String> {
    if has_nextest(workspace) {
        return Ok(None);
    }
    let root = workspace.target_dir.join("tools");
    let wanted = format!("cargo-nextest {}", pinned_versions::NEXTEST_VERSION);
    println!("installing {wanted} into {}: this machine has none", root.display());
    retry_install(&wanted, || {
        let mut install = Command::new(cargo_program());
        install.args([
            "install",
            "--locked",
            "cargo-nextest",
            "--version",
            pinned_versions::NEXTEST_VERSION,
        ]);
        // Without the self-update feature, because TLS and HTTP are half of the build.
        install.args(["--no-default-features", "--features", "default-no-update", "--root"]);
        // Its own build folder: features that differ must not rebuild ours.
        install.arg(&root).env("CARGO_TARGET_DIR", root.join("build"));
        run_visible(&mut install).map(|ended| ended.status.success())
    })?;
    drop(std::fs::remove_dir_all(root.join("build")));
    if has_nextest(workspace) { Ok(Some(wanted)) } else { Err(format!("{wanted} does not start")) }
}

fn has_nextest(workspace: &Workspace) -> bool {
    let mut ask = Command::new(cargo_program());
    ask.args(["nextest", "--version"]).env("PATH", search_path(&workspace.target_dir));
    run_quiet(&mut ask).is_ok_and(|ended| ended.status.success())
}

/// The search path with our own tools in front.
pub(crate) fn search_path(target: &Path) -> OsString {
    let own_bin = target.join("tools/bin");
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(own_bin).chain(std::env::split_paths(&rest));
    std::env::join_paths(all).unwrap_or(rest)
}

/// Retries `install` until it succeeds, with growing pauses.
pub(crate) fn retry_install(
    program: &str,
    mut install: impl FnMut() -> Result<bool, String>,
) -> Result<(), String> {
    for attempt in 1..=MAX_ATTEMPTS {
        if install()? {
            return Ok(());
        }
        println!("attempt {attempt} of {MAX_ATTEMPTS} to install {program} failed");
        thread::sleep(Duration::from_secs(u64::from(attempt) * 3));
    }
    Err(format!(
        "{program} could not be installed in {MAX_ATTEMPTS} attempts; the reason stands above"
    ))
}
