//! What tests need of the machine: a mount, and shared data.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::children::quiet;
use crate::workspace::Workspace;

/// Whether a small disk can be mounted the way the tests in `root::` do: over a folder, in a namespace
/// of its own, which whoever is not root opens as root of a namespace of users. Nothing stays mounted.
pub(super) fn can_mount(folder: &Path) -> Result<(), String> {
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    let script = "mount -t tmpfs -o size=64k,mode=700 tmpfs \"$0\"";
    command.args(["--mount", "sh", "-c", script]).arg(folder);
    let ended = quiet(&mut command)?;
    if ended.status.success() {
        return Ok(());
    }
    let told = ended.err.trim().lines().next_back().unwrap_or("it failed").to_owned();
    Err(told.replace(&folder.display().to_string(), "the folder"))
}

/// Names the data.
pub(super) fn with_data(command: &mut Command, folder: &Path) {
    command.env("TOOLKEEP_DATA", folder);
}

/// Where shared data is: `TOOLKEEP_DATA`, or `shared/data` beside the checkout.
pub(super) fn data_folder(workspace: &Workspace) -> PathBuf {
    let default = || workspace.root.parent().unwrap_or(&workspace.root).join("shared/data");
    let named = std::env::var_os("TOOLKEEP_DATA").map_or_else(default, PathBuf::from);
    // Tests run in the folders of their crates, where a relative name would mean another one.
    std::path::absolute(&named).unwrap_or(named)
}

#[cfg(test)]
mod tests {
    #[test]
    fn mounting_is_tried_and_not_guessed() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        // A folder that is not there cannot be mounted over, whoever asks.
        let missing = super::can_mount(&folder.join("none")).unwrap_err();
        assert!(!missing.is_empty() && !missing.contains('\n'), "{missing}");
        let can = super::can_mount(folder);
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
