//! `cargo xtask bench`: builds what is measured in release and hands over to the `bench` crate.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::children::shown;
use crate::workspace::Workspace;
use crate::{emulated, provision, release};

/// The page of a measurement, for `--write`; `bench call` and its parts have that without a name.
const PAGES: [(&str, &str); 7] = [
    ("emulated", "-instructions"),
    ("math", "-math"),
    ("node", "-nodes"),
    ("plugins", "-plugins"),
    ("policy", "-policy"),
    ("programs", "-programs"),
    ("tools", "-tools"),
];

/// Words for this task alone.
const OURS: [&str; 2] = ["--around", "--shipped"];

/// Runs `bench` with `words`. `--write` names the report, and Toolkeep itself is built and measured
/// unless `--around` leaves it out. `--peers` installs other gateways and names where they are.
/// `bench formats` and `bench policy` need nothing but themselves, `bench math` numpy and scipy.
/// `--shipped` measures what `cargo xtask release` built, Toolkeep and what stands beside it alike, and
/// has pages of its own.
///
/// # Errors
/// Where something does not build, or the measurement fails.
pub(crate) fn run(workspace: &Workspace, words: &[&str]) -> Result<(), String> {
    let shipped = words.contains(&"--shipped");
    let (binaries, built_by) = if shipped {
        (release::shipped(workspace)?, "cargo xtask release")
    } else {
        release::plain(workspace, "bench")?;
        (workspace.target.join("release"), "cargo build --release")
    };
    let bench = binaries.join("bench");
    let mut command = Command::new(&bench);
    command.env("TOOLKEEP_BUILT_BY", built_by);
    for word in words.iter().filter(|word| !OURS.contains(word)) {
        command.arg(word);
        if *word == "--peers" {
            command.arg(provision::peers(workspace)?);
        }
        if *word == "--write" {
            command.arg(workspace.root.join(page(words, shipped)));
        }
    }
    if words.first() == Some(&"math") {
        let real = provision::run(workspace)?;
        command.arg("--python").arg(real.folder.join("venv-math/bin/python"));
    }
    let within = matches!(words.first(), Some(&"formats" | &"policy"));
    if !within && !words.contains(&"--around") && !words.contains(&"--help") {
        if !shipped {
            release::plain(workspace, "toolkeep")?;
        }
        let toolkeep = binaries.join("toolkeep");
        if words.first() == Some(&"emulated") {
            return emulated(workspace, (&bench, (&toolkeep, built_by)), words);
        }
        command.arg("--toolkeep").arg(toolkeep);
    }
    let ended = shown(&mut command)?;
    if ended.status.success() { Ok(()) } else { Err("bench failed".to_owned()) }
}

/// The page of the measurement that `words` ask for, below the workspace.
fn page(words: &[&str], shipped: bool) -> String {
    let first = words.first().copied().unwrap_or_default();
    let named = PAGES.iter().find(|(name, _)| *name == first).map(|(_, page)| *page);
    let name = named.unwrap_or(if words.contains(&"--peers") { "-peers" } else { "" });
    let build = if shipped { "-shipped" } else { "" };
    format!("docs/reference/benchmarks{name}{build}.md")
}

/// In a machine of its own; `--write` writes what it says.
fn emulated(
    workspace: &Workspace,
    (bench, toolkeep): (&Path, (&Path, &str)),
    words: &[&str],
) -> Result<(), String> {
    let report = emulated::run(bench, toolkeep, &workspace.target.join("emulated"))?;
    if words.contains(&"--write") {
        let file = workspace.root.join(page(words, words.contains(&"--shipped")));
        fs::write(&file, report).map_err(|error| format!("`{}`: {error}", file.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::page;

    #[test]
    fn each_measurement_of_each_build_has_a_page_of_its_own() {
        assert_eq!(page(&["call", "--write"], false), "docs/reference/benchmarks.md");
        assert_eq!(page(&["node", "--write"], true), "docs/reference/benchmarks-nodes-shipped.md");
        let peers = page(&["call", "--peers", "--write"], false);
        assert_eq!(peers, "docs/reference/benchmarks-peers.md");
    }
}
