//! Crates that are compiled into the program, from `cargo metadata` and `Cargo.lock`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::program_binary::Architecture;
use crate::child_processes::run_for_output;
use crate::workspace::{Workspace, cargo_program, file_error};

/// A crate from a registry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RegistryCrate {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Licence as its manifest states it; an SPDX expression, but for old forms with `/`.
    pub(crate) license: String,
    pub(crate) authors: Vec<String>,
    pub(crate) repository: Option<String>,
    /// SHA-256 of its package.
    pub(crate) checksum: Option<String>,
    /// Folder of its unpacked source.
    pub(crate) source_dir: PathBuf,
}

impl RegistryCrate {
    /// Returns its package URL.
    pub(crate) fn package_url(&self) -> String {
        // The only reserved character in crate versions.
        format!("pkg:cargo/{}@{}", self.name, self.version.replace('+', "%2B"))
    }

    /// Returns its licence as an SPDX expression.
    pub(crate) fn license_expression(&self) -> String {
        self.license.replace(" / ", " OR ").replace('/', " OR ")
    }
}

/// The crates and who depends on whom.
#[derive(Debug)]
pub(crate) struct DependencyGraph {
    /// Crates of registries, sorted by name and version.
    pub(crate) crates: Vec<RegistryCrate>,
    /// Package URLs of the crates on which each crate depends.
    pub(crate) edges: BTreeMap<String, BTreeSet<String>>,
    /// Package URLs of the crates on which crates of the workspace depend.
    pub(crate) direct: BTreeSet<String>,
}

impl DependencyGraph {
    /// Loads the crates that package `toolkeep` needs to run, for Linux on these architectures:
    /// without those of tests and build scripts.
    pub(crate) fn load(
        workspace: &Workspace,
        architectures: &[Architecture],
    ) -> Result<Self, String> {
        let mut metadata = Command::new(cargo_program());
        metadata.args(["metadata", "--format-version", "1", "--locked"]);
        for architecture in architectures {
            let triple = format!("{}-unknown-linux-gnu", architecture.rust_name());
            metadata.args(["--filter-platform", &triple]);
        }
        let text = run_for_output(metadata.current_dir(&workspace.root_dir))
            .map_err(|why| format!("cargo metadata: {why}"))?;
        let metadata = serde_json::from_str(&text).map_err(|e| format!("cargo metadata: {e}"))?;
        let lock_path = workspace.root_dir.join("Cargo.lock");
        let lock = fs::read_to_string(&lock_path).map_err(|e| file_error(&lock_path, &e))?;
        Self::from_metadata(&metadata, &locked_checksums(&lock))
            .ok_or_else(|| "cargo metadata lacks a field".to_owned())
    }

    fn from_metadata(metadata: &Value, checksums: &BTreeMap<String, String>) -> Option<Self> {
        let packages: BTreeMap<&str, &Value> = metadata
            .get("packages")?
            .as_array()?
            .iter()
            .filter_map(|package| Some((package.get("id")?.as_str()?, package)))
            .collect();
        let nodes: BTreeMap<&str, Vec<&str>> = metadata
            .get("resolve")?
            .get("nodes")?
            .as_array()?
            .iter()
            .filter_map(|node| Some((node.get("id")?.as_str()?, runtime_dependencies(node))))
            .collect();
        let is_root =
            |package: &Value| package.get("name") == Some(&"toolkeep".into()) && is_own(package);
        let root = packages.iter().find(|(_, package)| is_root(package)).map(|(id, _)| *id)?;
        let mut graph =
            Self { crates: Vec::new(), edges: BTreeMap::new(), direct: BTreeSet::new() };
        let (mut pending, mut seen) = (vec![root], BTreeSet::from([root]));
        while let Some(id) = pending.pop() {
            let (package, needed) = (packages.get(id)?, nodes.get(id)?);
            pending.extend(needed.iter().copied().filter(|next| seen.insert(next)));
            let crates = needed.iter().filter_map(|next| packages.get(next));
            let urls = crates
                .filter(|next| !is_own(next))
                .filter_map(|next| Some(registry_crate(next, checksums)?.package_url()));
            if is_own(package) {
                graph.direct.extend(urls);
            } else {
                let found = registry_crate(package, checksums)?;
                graph.edges.insert(found.package_url(), urls.collect());
                graph.crates.push(found);
            }
        }
        graph.crates.sort();
        Some(graph)
    }
}

/// Returns whether a package belongs to the workspace.
fn is_own(package: &Value) -> bool {
    package.get("source").is_none_or(Value::is_null)
}

/// Returns the IDs of packages that a package needs at run time; macros count as such.
fn runtime_dependencies(node: &Value) -> Vec<&str> {
    let is_runtime = |dependency: &&Value| {
        let kinds = dependency.get("dep_kinds").and_then(Value::as_array);
        kinds.into_iter().flatten().any(|kind| kind.get("kind").is_none_or(Value::is_null))
    };
    let all = node.get("deps").and_then(Value::as_array);
    let runtime = all.into_iter().flatten().filter(is_runtime);
    runtime.filter_map(|dependency| dependency.get("pkg")?.as_str()).collect()
}

fn registry_crate(package: &Value, checksums: &BTreeMap<String, String>) -> Option<RegistryCrate> {
    let text = |key: &str| Some(package.get(key)?.as_str()?.to_owned());
    let (name, version) = (text("name")?, text("version")?);
    let authors = package.get("authors").and_then(Value::as_array);
    Some(RegistryCrate {
        checksum: checksums.get(&format!("{name} {version}")).cloned(),
        license: text("license").unwrap_or_else(|| "see its licence file".to_owned()),
        authors: authors
            .into_iter()
            .flatten()
            .filter_map(|it| it.as_str())
            .map(str::to_owned)
            .collect(),
        repository: text("repository"),
        source_dir: PathBuf::from(text("manifest_path")?).parent()?.to_owned(),
        name,
        version,
    })
}

/// Returns the checksums of `Cargo.lock` by name and version.
fn locked_checksums(lock: &str) -> BTreeMap<String, String> {
    let value = |line: &str, key: &str| {
        Some(line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"')?.to_owned())
    };
    let entry = |block: &str| {
        let field = |key: &str| block.lines().find_map(|line| value(line, key));
        Some((format!("{} {}", field("name")?, field("version")?), field("checksum")?))
    };
    lock.split("[[package]]").filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{DependencyGraph, locked_checksums};

    fn package(name: &str, source: Option<&str>) -> Value {
        json!({ "id": name, "name": name, "version": "1.0.0+x", "source": source, "license": "MIT/Apache-2.0",
                "authors": ["A"], "manifest_path": format!("registry/{name}/Cargo.toml") })
    }

    fn dependency(name: &str, kind: Option<&str>) -> Value {
        json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] })
    }

    #[test]
    fn only_crates_that_run_are_found_through_crates_of_the_workspace() {
        let registry = Some("registry");
        let metadata = json!({
            "packages": [package("toolkeep", None), package("own", None), package("a", registry),
                         package("b", registry), package("test-only", registry), package("build-only", registry)],
            "resolve": { "nodes": [
                { "id": "toolkeep", "deps": [dependency("own", None), dependency("test-only", Some("dev"))] },
                { "id": "own", "deps": [dependency("a", None), dependency("build-only", Some("build"))] },
                { "id": "a", "deps": [dependency("b", None)] },
                { "id": "b", "deps": [] },
            ] },
        });
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0+x\"\nchecksum = \"c0ffee\"\n";
        let graph = DependencyGraph::from_metadata(&metadata, &locked_checksums(lock)).unwrap();
        let names: Vec<&str> = graph.crates.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(graph.crates[0].checksum.as_deref(), Some("c0ffee"));
        assert_eq!(graph.crates[0].license_expression(), "MIT OR Apache-2.0");
        assert_eq!(Vec::from_iter(&graph.direct), ["pkg:cargo/a@1.0.0%2Bx"]);
        let edges = &graph.edges["pkg:cargo/a@1.0.0%2Bx"];
        assert_eq!(Vec::from_iter(edges), ["pkg:cargo/b@1.0.0%2Bx"]);
    }
}
