//! Requirements of tests: a mount and shared data.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::child_processes::run_quiet;
use crate::workspace::Workspace;

/// Checks that a small disk can be mounted as the tests in `root::` do: over a folder in its own
/// mount namespace, for other users than root also in a user namespace. No mount remains.
pub(super) fn check_mount(folder: &Path) -> Result<(), String> {
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    let script = "mount -t tmpfs -o size=64k,mode=700 tmpfs \"$0\"";
    command.args(["--mount", "sh", "-c", script]).arg(folder);
    let output = run_quiet(&mut command)?;
    if output.status.success() {
        return Ok(());
    }
    let message = output.stderr_text.trim().lines().next_back().unwrap_or("it failed").to_owned();
    Err(message.replace(&folder.display().to_string(), "the folder"))
}

/// Passes the data directory to a command in `TOOLKEEP_DATA`.
pub(super) fn set_data_folder(command: &mut Command, folder: &Path) {
    command.env("TOOLKEEP_DATA", folder);
}

/// Returns the shared data directory: `TOOLKEEP_DATA`, or `shared/data` beside the checkout.
pub(super) fn data_folder(workspace: &Workspace) -> PathBuf {
    let default = || workspace.root_dir.parent().unwrap_or(&workspace.root_dir).join("shared/data");
    let named = std::env::var_os("TOOLKEEP_DATA").map_or_else(default, PathBuf::from);
    // Tests run in the directories of their crates, so a relative path must be made absolute.
    std::path::absolute(&named).unwrap_or(named)
}

#[cfg(test)]
mod tests {
    #[test]
    fn mounting_is_tried_and_not_guessed() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        // A folder that is not there cannot be mounted over, whoever asks.
        let missing = super::check_mount(&folder.join("none")).unwrap_err();
        assert!(!missing.is_empty() && !missing.contains('\n'), "{missing}");
        let can = super::check_mount(folder);
        assert!(folder.join("Cargo.toml").exists(), "something stayed mounted: {can:?}");
        // By another way: the system call itself, in a namespace of its own.
        let user =
            if rustix::process::geteuid().is_root() { &[][..] } else { &["--map-root-user"] };
        let other = std::process::Command::new("unshare")
            .args(user)
            .args(["--mount", "mount", "--bind"])
            .args([folder, folder])
            .output()
            .unwrap();
        assert_eq!(can.is_ok(), other.status.success(), "{can:?} {other:?}");
    }
}
