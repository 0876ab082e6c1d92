//! `cargo xtask bench`: builds what is measured in release and hands over to the `bench` crate.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::children::shown;
use crate::workspace::Workspace;
use crate::{emulated, provision, release};

/// Where `--write` writes, where it does with `--peers`, and where for `bench policy` and
/// `bench tools`.
const REPORT: &str = "docs/reference/benchmarks.md";
const PEERS: &str = "docs/reference/benchmarks-peers.md";
const POLICY: &str = "docs/reference/benchmarks-policy.md";
const TOOLS: &str = "docs/reference/benchmarks-tools.md";
const PROGRAMS: &str = "docs/reference/benchmarks-programs.md";
const NODES: &str = "docs/reference/benchmarks-nodes.md";
const PLUGINS: &str = "docs/reference/benchmarks-plugins.md";
const MATH: &str = "docs/reference/benchmarks-math.md";
const EMULATED: &str = "docs/reference/benchmarks-instructions.md";

/// Words for this task alone.
const OURS: [&str; 2] = ["--around", "--shipped"];

/// Runs `bench` with `words`. `--write` names the report, and Toolkeep itself is built and measured
/// unless `--around` leaves it out. `--peers` installs other gateways and names where they are.
/// `bench formats` and `bench policy` need nothing but themselves, `bench math` numpy and scipy.
/// `--shipped` measures what `cargo xtask release` built.
///
/// # Errors
/// Where something does not build, or the measurement fails.
pub(crate) fn run(workspace: &Workspace, words: &[&str]) -> Result<(), String> {
    let binaries = workspace.target.join("release");
    let mut command = Command::new(binaries.join("bench"));
    let within = matches!(words.first(), Some(&"formats" | &"policy"));
    let around = within || words.contains(&"--around") || words.contains(&"--help");
    for word in words.iter().filter(|word| !OURS.contains(word)) {
        command.arg(word);
        if *word == "--peers" {
            command.arg(provision::peers(workspace)?);
        }
        if *word == "--write" {
            let report = match words.first() {
                Some(&"policy") => POLICY,
                Some(&"tools") => TOOLS,
                Some(&"plugins") => PLUGINS,
                Some(&"programs") => PROGRAMS,
                Some(&"math") => MATH,
                Some(&"node") => NODES,
                _ if words.contains(&"--peers") => PEERS,
                _ => REPORT,
            };
            command.arg(workspace.root.join(report));
        }
    }
    release::plain(workspace, "bench")?;
    if words.first() == Some(&"math") {
        let real = provision::run(workspace)?;
        command.arg("--python").arg(real.folder.join("venv-math/bin/python"));
    }
    if !around {
        let (toolkeep, built_by) = if words.contains(&"--shipped") {
            (release::shipped(workspace)?, "cargo xtask release")
        } else {
            release::plain(workspace, "toolkeep")?;
            (binaries.join("toolkeep"), "cargo build --release")
        };
        if words.first() == Some(&"emulated") {
            let toolkeep = (toolkeep.as_path(), built_by);
            return emulated(workspace, (&binaries.join("bench"), toolkeep), words);
        }
        command.arg("--toolkeep").arg(toolkeep).env("TOOLKEEP_BUILT_BY", built_by);
    }
    let ended = shown(&mut command)?;
    if ended.status.success() { Ok(()) } else { Err("bench failed".to_owned()) }
}

/// In a machine of its own; `--write` writes what it says.
fn emulated(
    workspace: &Workspace,
    (bench, toolkeep): (&Path, (&Path, &str)),
    words: &[&str],
) -> Result<(), String> {
    let report = emulated::run(bench, toolkeep, &workspace.target.join("emulated"))?;
    if words.contains(&"--write") {
        let file = workspace.root.join(EMULATED);
        fs::write(&file, report).map_err(|error| format!("`{}`: {error}", file.display()))?;
    }
    Ok(())
}
