//! Where the repository is and what cargo knows of it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The checkout, as `cargo metadata` describes it.
pub(crate) struct Workspace {
    /// The folder of the root `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// Where cargo builds; caches of the tasks lie beside it.
    pub(crate) target: PathBuf,
    /// What cargo says of the packages here.
    metadata: Value,
}

impl Workspace {
    /// Asks cargo.
    pub(crate) fn open() -> Result<Self, String> {
        // The folder that cargo says now, not the one this was built in: a checkout may be moved, and
        // checkouts may share what was built.
        let here = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(PathBuf::new, PathBuf::from);
        let output = Command::new(cargo())
            .args(["metadata", "--format-version", "1", "--no-deps", "--manifest-path"])
            .arg(here.join("../Cargo.toml"))
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
        Ok(Self { root: path("workspace_root")?, target: path("target_directory")?, metadata })
    }

    /// The packages of this repository.
    pub(crate) fn members(&self) -> Vec<&Value> {
        let packages = self.metadata.get("packages").and_then(Value::as_array);
        // What has no `source` is not from a registry: it is ours.
        packages
            .into_iter()
            .flatten()
            .filter(|p| p.get("source").is_none_or(Value::is_null))
            .collect()
    }

    /// Names of the packages of this repository whose library has doc tests.
    pub(crate) fn with_doctests(&self) -> Vec<&str> {
        let has = |package: &&&Value| {
            let targets = package.get("targets").and_then(Value::as_array);
            targets.into_iter().flatten().any(|t| t.get("doctest") == Some(&Value::Bool(true)))
        };
        let members = self.members();
        members.iter().filter(has).filter_map(|p| p.get("name")?.as_str()).collect()
    }
}

/// The cargo that runs this task.
pub(crate) fn cargo() -> PathBuf {
    std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from)
}

/// What went wrong with a file.
pub(crate) fn at(path: &Path, error: &std::io::Error) -> String {
    format!("`{}`: {error}", path.display())
}
