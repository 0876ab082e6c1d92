//! Which crate may see which. The table is the architecture; a new arrow is a decision.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::process::Command;

use serde_json::Value;

use super::Finding;
use super::source::PURE;
use crate::children::quiet;
use crate::workspace::{Workspace, cargo};

/// A crate and the crates of ours it may depend on. Tests may see more.
const ARROWS: &[(&str, &[&str])] = &[
    ("json", &[]),
    ("tool", &["json"]),
    ("tool-manifest", &["tool"]),
    ("builtin-manifests", &["tool", "tool-manifest"]),
    ("identity", &["tool", "json"]),
    ("catalog", &["tool", "json"]),
    ("policy", &["tool", "identity"]),
    ("formats", &["tool", "json"]),
    ("mcp", &["tool", "json"]),
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
        ],
    ),
    ("proto", &[]),
    ("node-addresses", &["tool", "egress"]),
    ("nodes", &["tool", "rooted-fs", "egress", "proto", "node-addresses"]),
    ("nodes-kubernetes", &["tool", "rooted-fs", "egress", "nodes"]),
    ("nodes-mongo", &["tool", "nodes"]),
    ("sdk", &["tool", "rooted-fs", "egress", "proto", "sdk-macros"]),
    ("sdk-macros", &[]),
    ("option-types", &[]),
    ("packages", &["tool", "rooted-fs", "archive-reader", "option-types"]),
    ("oauth-client", &["tool", "egress"]),
    ("source-layers", &["tool", "sandbox"]),
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
            "tool", "json", "identity", "catalog", "policy", "formats", "gateway", "intake",
            "ledger",
        ],
    ),
    (
        "server-rest",
        &["tool", "identity", "catalog", "policy", "formats", "gateway", "intake", "server-core"],
    ),
    ("server-mcp", &["tool", "identity", "catalog", "formats", "mcp", "gateway", "server-core"]),
    ("server-compat", &["tool", "json", "identity", "catalog", "gateway", "server-core"]),
    (
        "server",
        &[
            "tool",
            "identity",
            "mcp",
            "gateway",
            "http1",
            "proto",
            "server-core",
            "server-rest",
            "server-mcp",
            "server-compat",
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
    ("cli-core", &["tool", "identity", "ledger", "rooted-fs", "egress", "sandbox", "config"]),
    ("cli-node", &["*"]),
    ("cli", &["*"]),
    ("toolkeep", &["*"]),
    ("xtask", &[]),
    (
        "bench",
        &[
            "tool", "identity", "catalog", "policy", "formats", "gateway", "egress", "intake",
            "nodes", "proto", "store",
        ],
    ),
];

/// What a pure crate may not have, at any depth: it would bring a runtime, a socket or a file.
const IMPURE: &[&str] =
    &["tokio", "mio", "hyper", "axum", "reqwest", "rusqlite", "rmcp", "notify", "ureq"];

/// What no crate may have, at any depth.
const BANNED: &[(&str, &str)] = &[
    ("openssl-sys", "TLS is rustls"),
    ("native-tls", "TLS is rustls"),
    ("ring", "the provider of rustls is aws-lc-rs"),
    ("async-trait", "a trait method returns `tool::Boxed` and forwards to an inherent async fn"),
];

/// Banned crates that a dependency of ours brings along, and which.
const SUFFERED: &[(&str, &str)] = &[
    ("async-trait", "rmcp"),
    // The traits of its generated servers.
    ("async-trait", "tonic"),
];

/// Who needs whom to run or to build, over all packages, tests left out.
///
/// From `cargo tree` and not from the `resolve` of `cargo metadata`: the latter also names optional
/// packages that no feature turns on.
#[derive(Default)]
struct Graph<'a> {
    needs: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

/// Every rule on the dependencies of the workspace.
///
/// # Errors
/// Where cargo does not tell.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<Finding>, String> {
    let members = workspace.members();
    let ours: BTreeSet<&str> = members.iter().filter_map(|p| p.get("name")?.as_str()).collect();
    let mut findings: Vec<Finding> = members.iter().flat_map(|p| arrows(p, &ours)).collect();
    let mut tree = Command::new(cargo());
    tree.args(["tree", "--workspace", "--locked", "--target", "all", "--edges", "normal,build"]);
    tree.args(["--prefix", "depth", "--format", " {p}"]).current_dir(&workspace.root);
    let ended = quiet(&mut tree)?;
    if !ended.status.success() {
        return Err(ended.err);
    }
    let graph = Graph::read(&ended.out);
    findings.extend(pure(&graph));
    findings.extend(banned(&graph));
    Ok(findings)
}

fn arrows(package: &Value, ours: &BTreeSet<&str>) -> Vec<Finding> {
    let Some(name) = package.get("name").and_then(Value::as_str) else { return Vec::new() };
    let manifest = manifest(name);
    let Some((_, allowed)) = ARROWS.iter().find(|(crate_, _)| *crate_ == name) else {
        let fix = "give it a line in the table of xtask/src/tidy/arrows.rs";
        return vec![Finding::new(&manifest, 0, format!("`{name}` has no place in the map"), fix)];
    };
    let dependencies = package.get("dependencies").and_then(Value::as_array);
    let forbidden = |dependency: &Value| {
        let target = dependency.get("name")?.as_str()?;
        let in_tests = dependency.get("kind").and_then(Value::as_str) == Some("dev");
        let may = allowed.contains(&target) || allowed.contains(&"*") && target != "testkit";
        // A test may set up what stands around its crate, short of the doors and the program.
        let tried = in_tests && !matches!(target, "server" | "toolkeep");
        let fine = !ours.contains(target) || may || tried;
        (!fine).then(|| {
            let what = format!("`{name}` may not see `{target}`");
            let fix = "turn the arrow round with a port in `tool`, or decide it in docs/design and the table";
            Finding::new(&manifest, 0, what, fix)
        })
    };
    dependencies.into_iter().flatten().filter_map(forbidden).collect()
}

fn manifest(name: &str) -> String {
    if name == "xtask" {
        "xtask/Cargo.toml".to_owned()
    } else {
        format!("crates/{name}/Cargo.toml")
    }
}

impl<'a> Graph<'a> {
    /// Reads lines of a depth and a package, `0 store v0.1.0`.
    fn read(tree: &'a str) -> Self {
        let mut graph = Self::default();
        let mut above: Vec<&str> = Vec::new();
        for line in tree.lines() {
            let mut words = line.split_whitespace();
            let depth = words.next().and_then(|depth| depth.parse().ok());
            let (Some(depth), Some(name)) = (depth, words.next()) else { continue };
            above.truncate(depth);
            if let Some(user) = above.last() {
                graph.needs.entry(user).or_default().insert(name);
            }
            above.push(name);
        }
        graph
    }

    /// The names from `start` to the first package that `wanted` picks.
    fn path(&self, start: &'a str, wanted: impl Fn(&str) -> bool) -> Option<Vec<&'a str>> {
        let mut queue = VecDeque::from([vec![start]]);
        let mut seen = BTreeSet::from([start]);
        while let Some(path) = queue.pop_front() {
            let last = path.last().copied()?;
            if wanted(last) {
                return Some(path);
            }
            for next in self.needs.get(last).into_iter().flatten() {
                if seen.insert(next) {
                    queue.push_back([&path[..], &[next]].concat());
                }
            }
        }
        None
    }
}

fn pure(graph: &Graph<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in PURE {
        if let Some(path) = graph.path(name, |other| IMPURE.contains(&other)) {
            let what = format!("the pure crate `{name}` reaches {}", path.join(" → "));
            findings.push(Finding::new(
                &manifest(name),
                0,
                what,
                "leave it out, or switch off the feature that brings it",
            ));
        }
    }
    findings
}

fn banned(graph: &Graph<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (user, needs) in &graph.needs {
        for (name, fix) in BANNED.iter().filter(|(name, _)| needs.contains(name)) {
            if !SUFFERED.contains(&(*name, *user)) {
                let what = format!("`{user}` brings the banned `{name}`");
                findings.push(Finding::new("Cargo.lock", 0, what, *fix));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests;
