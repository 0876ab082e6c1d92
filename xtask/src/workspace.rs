//! The workspace: its folders and cargo's metadata.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The checkout, as `cargo metadata` describes it.
pub(crate) struct Workspace {
    /// The folder of the root `Cargo.toml`.
    pub(crate) root_dir: PathBuf,
    /// Cargo's target directory; task caches are next to the builds.
    pub(crate) target_dir: PathBuf,
    /// Cargo's metadata of the packages.
    metadata: Value,
}

impl Workspace {
    /// Loads the workspace from `cargo metadata`.
    pub(crate) fn load_workspace() -> Result<Self, String> {
        // `CARGO_MANIFEST_DIR` at run time, not at build time: a checkout can be moved, and
        // checkouts can share build output.
        let xtask_dir =
            std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(PathBuf::new, PathBuf::from);
        let output = Command::new(cargo_program())
            .args(["metadata", "--format-version", "1", "--no-deps", "--manifest-path"])
            .arg(xtask_dir.join("../Cargo.toml"))
            .output()
            .map_err(|e| format!("cannot start cargo: {e}"))?;
        if !output.status.success() {
            return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
        }
        let metadata: Value = serde_json::from_slice(&output.stdout)
            .map_err(|e| format!("cargo metadata cannot be read: {e}"))?;
        let path = |key: &str| {
            let text = metadata.get(key).and_then(Value::as_str);
            text.map(PathBuf::from).ok_or_else(|| format!("cargo metadata has no `{key}`"))
        };
        Ok(Self {
            root_dir: path("workspace_root")?,
            target_dir: path("target_directory")?,
            metadata,
        })
    }

    /// The packages of this repository.
    pub(crate) fn workspace_packages(&self) -> Vec<&Value> {
        let packages = self.metadata.get("packages").and_then(Value::as_array);
        // Packages without a `source` are not from a registry, so they belong to the workspace.
        packages
            .into_iter()
            .flatten()
            .filter(|p| p.get("source").is_none_or(Value::is_null))
            .collect()
    }

    /// Names of the packages of this repository whose library has doc tests.
    pub(crate) fn packages_with_doctests(&self) -> Vec<&str> {
        let has_doctests = |package: &&&Value| {
            let targets = package.get("targets").and_then(Value::as_array);
            targets.into_iter().flatten().any(|t| t.get("doctest") == Some(&Value::Bool(true)))
        };
        let members = self.workspace_packages();
        members.iter().filter(has_doctests).filter_map(|p| p.get("name")?.as_str()).collect()
    }
}

/// The cargo that runs this task.
pub(crate) fn cargo_program() -> PathBuf {
    std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from)
}

/// Formats an I/O error with its path.
pub(crate) fn file_error(path: &Path, error: &std::io::Error) -> String {
    format!("`{}`: {error}", path.display())
}
