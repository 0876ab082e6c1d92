//! The wheel of `toolkeep-node`, the Python package for nodes, built by setuptools.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::package_set::PackageSet;
use crate::child_processes::run_quiet;
use crate::test_installs;
use crate::workspace::file_error;

/// Builds the wheel from a copy of `python/`, since setuptools writes into its source.
pub(crate) fn build(set: &PackageSet<'_>) -> Result<PathBuf, String> {
    let python = test_installs::install_packaging_tools(set.workspace)?;
    let copy = set.workspace.target_dir.join(format!("dist-work/node-{}", std::process::id()));
    let built = copy_package(&set.workspace.root_dir.join("python"), &copy)
        .and_then(|()| run_setuptools(set, &python, &copy));
    drop(fs::remove_dir_all(&copy));
    built
}

fn run_setuptools(set: &PackageSet<'_>, python: &Path, copy: &Path) -> Result<PathBuf, String> {
    let output_dir = copy.join("dist");
    // Setuptools writes the mode of each file into the wheel.
    let mut pip = Command::new("sh");
    pip.args(["-c", "umask 022; exec \"$@\"", "sh"]).arg(python);
    pip.args(["-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-index"]);
    pip.args(["--no-deps", "--no-build-isolation", "--wheel-dir"]).arg(&output_dir).arg(copy);
    pip.env("SOURCE_DATE_EPOCH", set.epoch_seconds.to_string());
    let output = run_quiet(&mut pip)?;
    if !output.status.success() {
        return Err(format!("toolkeep-node does not build: {}", output.stderr_text));
    }
    let mut entries = fs::read_dir(&output_dir).map_err(|e| file_error(&output_dir, &e))?;
    let wheel = entries.find_map(|entry| Some(entry.ok()?.path()));
    let wheel = wheel.ok_or("pip wrote no wheel of toolkeep-node")?;
    let content = fs::read(&wheel).map_err(|e| file_error(&wheel, &e))?;
    let name = wheel.file_name().unwrap_or_default().to_string_lossy();
    set.write_package(&name, &content)
}

/// Copies the package without its tests, with one mode for all files.
fn copy_package(from: &Path, to: &Path) -> Result<(), String> {
    fs::create_dir_all(to).map_err(|e| file_error(to, &e))?;
    for entry in fs::read_dir(from).map_err(|e| file_error(from, &e))? {
        let entry = entry.map_err(|e| file_error(from, &e))?;
        let (source, name) = (entry.path(), entry.file_name());
        let text = name.to_string_lossy();
        if text == "tests"
            || text == "build"
            || text == "__pycache__"
            || text.ends_with(".egg-info")
        {
            continue;
        }
        if source.is_dir() {
            copy_package(&source, &to.join(&name))?;
        } else {
            let target = to.join(&name);
            fs::copy(&source, &target).map_err(|e| file_error(&source, &e))?;
            fs::set_permissions(&target, fs::Permissions::from_mode(0o644))
                .map_err(|e| file_error(&target, &e))?;
        }
    }
    Ok(())
}
