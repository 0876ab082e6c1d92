//! Allowed dependencies between crates. The table is the architecture; a new dependency is a
//! decision.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::process::Command;

use serde_json::Value;

use super::TidyFinding;
use super::source_rules::PURE_CRATES;
use crate::child_processes::run_quiet;
use crate::workspace::{Workspace, cargo_program};

/// A crate and the crates of ours it may depend on. Tests may see more.
const ALLOWED_DEPENDENCIES: &[(&str, &[&str])] = &[
    ("json", &[]),
    ("tool", &["json"]),
    ("tool-manifest", &["tool"]),
    ("builtin-manifests", &["tool", "tool-manifest"]),
    ("identity", &["tool", "json"]),
    ("catalog", &["tool", "json"]),
    ("policy", &["tool", "identity"]),
    ("formats", &["tool", "json"]),
    ("mcp", &["tool", "json"]),
    ("word-vectors", &[]),
    ("search", &["tool", "word-vectors"]),
    ("testkit", &["tool"]),
    ("host", &["tool"]),
    ("rooted-fs", &["tool"]),
    ("sandbox", &["tool", "host"]),
    ("http1", &[]),
    ("egress", &["tool", "host", "http1"]),
    ("archive-reader", &["rooted-fs"]),
    ("ledger", &["tool"]),
    ("store", &["tool", "rooted-fs", "egress"]),
    (
        "builtins",
        &[
            "tool",
            "json",
            "tool-manifest",
            "builtin-manifests",
            "archive-reader",
            "rooted-fs",
            "egress",
            "sandbox",
            "host",
        ],
    ),
    ("builtins-math", &["tool", "json", "tool-manifest", "builtin-manifests", "builtins"]),
    ("builtins-symbolic", &["tool", "tool-manifest", "builtin-manifests", "builtins", "sandbox"]),
    (
        "builtins-llm",
        &[
            "tool",
            "sandbox",
            "tool-manifest",
            "builtin-manifests",
            "builtins",
            "rooted-fs",
            "egress",
            "word-vectors",
        ],
    ),
    ("proto", &["host"]),
    ("node-addresses", &["tool", "egress"]),
    ("nodes", &["tool", "rooted-fs", "egress", "host", "proto", "node-addresses", "option-types"]),
    ("nodes-kubernetes", &["tool", "rooted-fs", "egress", "node-addresses", "nodes"]),
    ("nodes-mongo", &["tool", "nodes"]),
    ("sdk", &["tool", "rooted-fs", "egress", "proto", "sdk-macros"]),
    ("sdk-macros", &[]),
    ("option-types", &[]),
    ("packages", &["tool", "rooted-fs", "archive-reader", "option-types"]),
    ("oauth-client", &["tool", "egress"]),
    ("source-layers", &["tool", "sandbox", "option-types"]),
    ("source-mcp", &["tool", "json", "mcp", "egress", "sandbox", "oauth-client", "source-layers"]),
    ("source-modules", &["tool", "egress", "source-layers"]),
    (
        "source-tool-files",
        &["tool", "json", "tool-manifest", "rooted-fs", "egress", "source-layers"],
    ),
    ("plugins", &["tool", "rooted-fs", "egress", "sandbox", "host", "source-mcp", "option-types"]),
    ("intake", &["tool", "catalog", "policy"]),
    ("gateway", &["tool", "identity", "catalog", "policy", "option-types"]),
    ("programs", &["tool", "identity", "catalog", "gateway", "tool-manifest", "builtin-manifests"]),
    (
        "server-core",
        &[
            "tool",
            "json",
            "identity",
            "catalog",
            "policy",
            "formats",
            "gateway",
            "intake",
            "ledger",
            "search",
            "option-types",
        ],
    ),
    (
        "server-rest",
        &["tool", "identity", "catalog", "formats", "gateway", "intake", "server-core"],
    ),
    ("server-mcp", &["tool", "identity", "catalog", "formats", "mcp", "gateway", "server-core"]),
    ("server-compat", &["tool", "json", "identity", "catalog", "gateway", "server-core"]),
    ("server-console", &["tool", "json", "identity", "catalog", "gateway", "server-core"]),
    (
        "server",
        &[
            "tool",
            "identity",
            "mcp",
            "gateway",
            "host",
            "http1",
            "proto",
            "server-core",
            "server-rest",
            "server-mcp",
            "server-compat",
            "server-console",
        ],
    ),
    (
        "config",
        &[
            "tool",
            "tool-manifest",
            "builtin-manifests",
            "identity",
            "policy",
            "ledger",
            "rooted-fs",
            "egress",
            "sandbox",
            "oauth-client",
            "node-addresses",
            "option-types",
        ],
    ),
    ("config-edit", &["tool", "rooted-fs", "config"]),
    ("cli-core", &["tool", "identity", "ledger", "rooted-fs", "egress", "sandbox", "config"]),
    ("cli-node", &["*"]),
    ("cli", &["*"]),
    ("toolkeep", &["*"]),
    ("xtask", &[]),
    (
        "bench",
        &[
            "tool",
            "identity",
            "catalog",
            "policy",
            "formats",
            "gateway",
            "egress",
            "intake",
            "nodes",
            "proto",
            "search",
            "builtins-llm",
            "store",
            "ledger",
            "server-core",
            "server-mcp",
        ],
    ),
];

/// Packages that a pure crate may not depend on, at any depth, because they bring a runtime, a
/// socket or files.
const IMPURE_PACKAGES: &[&str] =
    &["tokio", "mio", "hyper", "axum", "reqwest", "rusqlite", "rmcp", "notify", "ureq"];

/// Packages that no crate may depend on, at any depth.
const BANNED_PACKAGES: &[(&str, &str)] = &[
    ("openssl-sys", "TLS is rustls"),
    ("native-tls", "TLS is rustls"),
    ("ring", "the provider of rustls is aws-lc-rs"),
    (
        "async-trait",
        "a trait method returns `tool::BoxFuture` and forwards to an inherent async fn",
    ),
];

/// Exceptions: banned packages that come with a dependency, and the dependency.
const BAN_EXCEPTIONS: &[(&str, &str)] = &[
    ("async-trait", "rmcp"),
    // The traits of its generated servers.
    ("async-trait", "tonic"),
];

/// Dependency graph of all packages, without test dependencies.
///
/// From `cargo tree` and not from the `resolve` of `cargo metadata`: the latter also names optional
/// packages that no feature turns on.
#[derive(Default)]
struct DependencyGraph<'a> {
    dependencies: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

/// Checks all rules on the dependencies of the workspace.
///
/// # Errors
/// If `cargo metadata` fails.
pub(crate) fn check_dependencies(workspace: &Workspace) -> Result<Vec<TidyFinding>, String> {
    let members = workspace.workspace_packages();
    let workspace_crates: BTreeSet<&str> =
        members.iter().filter_map(|p| p.get("name")?.as_str()).collect();
    let mut findings: Vec<TidyFinding> =
        members.iter().flat_map(|p| check_package(p, &workspace_crates)).collect();
    let mut tree = Command::new(cargo_program());
    tree.args(["tree", "--workspace", "--locked", "--target", "all", "--edges", "normal,build"]);
    tree.args(["--prefix", "depth", "--format", " {p}"]).current_dir(&workspace.root_dir);
    let output = run_quiet(&mut tree)?;
    if !output.status.success() {
        return Err(output.stderr_text);
    }
    let graph = DependencyGraph::parse_tree(&output.stdout_text);
    findings.extend(check_purity(&graph));
    findings.extend(check_banned(&graph));
    Ok(findings)
}

fn check_package(package: &Value, workspace_crates: &BTreeSet<&str>) -> Vec<TidyFinding> {
    let Some(name) = package.get("name").and_then(Value::as_str) else { return Vec::new() };
    let manifest = manifest_path(name);
    let Some((_, allowed)) = ALLOWED_DEPENDENCIES.iter().find(|(crate_, _)| *crate_ == name) else {
        let fix = "give it a line in the table of xtask/src/tidy/dependency_rules.rs";
        return vec![TidyFinding::new(
            &manifest,
            0,
            format!("`{name}` has no place in the map"),
            fix,
        )];
    };
    let dependencies = package.get("dependencies").and_then(Value::as_array);
    let forbidden = |dependency: &Value| {
        let target = dependency.get("name")?.as_str()?;
        let in_tests = dependency.get("kind").and_then(Value::as_str) == Some("dev");
        let may = allowed.contains(&target) || allowed.contains(&"*") && target != "testkit";
        // A test may set up the environment of its crate, except for the interfaces and the
        // program.
        let tried = in_tests && !matches!(target, "server" | "toolkeep");
        let fine = !workspace_crates.contains(target) || may || tried;
        (!fine).then(|| {
            let what = format!("`{name}` may not see `{target}`");
            let fix = "turn the arrow round with a port in `tool`, or decide it in docs/design and the table";
            TidyFinding::new(&manifest, 0, what, fix)
        })
    };
    dependencies.into_iter().flatten().filter_map(forbidden).collect()
}

fn manifest_path(name: &str) -> String {
    if name == "xtask" {
        "xtask/Cargo.toml".to_owned()
    } else {
        format!("crates/{name}/Cargo.toml")
    }
}

impl<'a> DependencyGraph<'a> {
    /// Reads lines of a depth and a package, `0 store v0.1.0`.
    fn parse_tree(tree: &'a str) -> Self {
        let mut graph = Self::default();
        let mut ancestors: Vec<&str> = Vec::new();
        for line in tree.lines() {
            let mut fields = line.split_whitespace();
            let depth = fields.next().and_then(|depth| depth.parse().ok());
            let (Some(depth), Some(name)) = (depth, fields.next()) else { continue };
            ancestors.truncate(depth);
            if let Some(user) = ancestors.last() {
                graph.dependencies.entry(user).or_default().insert(name);
            }
            ancestors.push(name);
        }
        graph
    }

    /// The names from `start` to the first package that `wanted` picks.
    fn find_path(&self, start: &'a str, wanted: impl Fn(&str) -> bool) -> Option<Vec<&'a str>> {
        let mut queue = VecDeque::from([vec![start]]);
        let mut seen = BTreeSet::from([start]);
        while let Some(path) = queue.pop_front() {
            let last = path.last().copied()?;
            if wanted(last) {
                return Some(path);
            }
            for next in self.dependencies.get(last).into_iter().flatten() {
                if seen.insert(next) {
                    queue.push_back([&path[..], &[next]].concat());
                }
            }
        }
        None
    }
}

fn check_purity(graph: &DependencyGraph<'_>) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for name in PURE_CRATES {
        if let Some(path) = graph.find_path(name, |other| IMPURE_PACKAGES.contains(&other)) {
            let what = format!("the pure crate `{name}` reaches {}", path.join(" → "));
            findings.push(TidyFinding::new(
                &manifest_path(name),
                0,
                what,
                "leave it out, or switch off the feature that brings it",
            ));
        }
    }
    findings
}

fn check_banned(graph: &DependencyGraph<'_>) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for (user, needs) in &graph.dependencies {
        for (name, fix) in BANNED_PACKAGES.iter().filter(|(name, _)| needs.contains(name)) {
            if !BAN_EXCEPTIONS.contains(&(*name, *user)) {
                let what = format!("`{user}` brings the banned `{name}`");
                findings.push(TidyFinding::new("Cargo.lock", 0, what, *fix));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests;
