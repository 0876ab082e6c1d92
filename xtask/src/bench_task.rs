//! `cargo xtask bench`: builds the measured programs in release mode and runs the `bench` crate.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::child_processes::run_visible;
use crate::workspace::Workspace;
use crate::{emulated_bench, release_build, test_installs};

/// Report page of each measurement, for `--write`. `bench call` and its parts have the page without
/// a suffix.
const REPORT_SUFFIXES: [(&str, &str); 10] = [
    ("console", "-console"),
    ("emulated", "-instructions"),
    ("growth", "-growth"),
    ("math", "-math"),
    ("node", "-nodes"),
    ("plugins", "-plugins"),
    ("policy", "-policy"),
    ("programs", "-programs"),
    ("search", "-search"),
    ("tools", "-tools"),
];

/// Flags that only this task uses.
const TASK_FLAGS: [&str; 2] = ["--around", "--shipped"];

/// Runs `bench` with `args`. `--write` selects the report file. Toolkeep is built and measured
/// too, unless `--around` leaves it out. `--peers` installs other gateways and passes their folder.
/// `bench growth`, `bench policy` and `bench search` need no server; `bench math` needs numpy and scipy.
/// `--shipped` measures the programs of `cargo xtask release`, Toolkeep and its peers alike, and
/// has its own reports.
///
/// # Errors
/// If a build or the measurement fails.
pub(crate) fn run_bench(workspace: &Workspace, args: &[&str]) -> Result<(), String> {
    let shipped = args.contains(&"--shipped");
    let (binaries, built_by) = if shipped {
        (release_build::shipped_dir(workspace)?, "cargo xtask release")
    } else {
        release_build::build_plain(workspace, "bench")?;
        (workspace.target_dir.join("release"), "cargo build --release")
    };
    let bench = binaries.join("bench");
    let mut command = Command::new(&bench);
    command.env("TOOLKEEP_BUILT_BY", built_by);
    for word in args.iter().filter(|word| !TASK_FLAGS.contains(word)) {
        command.arg(word);
        if *word == "--peers" {
            command.arg(test_installs::install_peers(workspace)?);
        }
        if *word == "--write" {
            command.arg(workspace.root_dir.join(report_path(args, shipped)));
        }
    }
    if args.first() == Some(&"math") {
        let installed = test_installs::install_missing(&workspace.target_dir)?;
        command.arg("--python").arg(installed.folder.join("venv-math/bin/python"));
    }
    let within = matches!(args.first(), Some(&"growth" | &"policy" | &"search"));
    if !within && !args.contains(&"--around") && !args.contains(&"--help") {
        if !shipped {
            release_build::build_plain(workspace, "toolkeep")?;
        }
        let toolkeep = binaries.join("toolkeep");
        if args.first() == Some(&"emulated") {
            return run_emulated(workspace, (&bench, (&toolkeep, built_by)), args);
        }
        command.arg("--toolkeep").arg(toolkeep);
    }
    let output = run_visible(&mut command)?;
    if output.status.success() { Ok(()) } else { Err("bench failed".to_owned()) }
}

/// The page of the measurement that `args` select, below the workspace.
fn report_path(args: &[&str], shipped: bool) -> String {
    let first = args.first().copied().unwrap_or_default();
    let named = REPORT_SUFFIXES.iter().find(|(name, _)| *name == first).map(|(_, page)| *page);
    let name = named.unwrap_or(if args.contains(&"--peers") { "-peers" } else { "" });
    let build = if shipped { "-shipped" } else { "" };
    format!("docs/reference/benchmarks{name}{build}.md")
}

/// Runs the benchmark in an emulated machine; `--write` stores its report.
fn run_emulated(
    workspace: &Workspace,
    (bench, toolkeep): (&Path, (&Path, &str)),
    args: &[&str],
) -> Result<(), String> {
    let report = emulated_bench::run_emulated_bench(
        bench,
        toolkeep,
        &workspace.target_dir.join("emulated"),
    )?;
    if args.contains(&"--write") {
        let file = workspace.root_dir.join(report_path(args, args.contains(&"--shipped")));
        fs::write(&file, report).map_err(|error| format!("`{}`: {error}", file.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::report_path;

    #[test]
    fn each_measurement_of_each_build_has_a_page_of_its_own() {
        assert_eq!(report_path(&["call", "--write"], false), "docs/reference/benchmarks.md");
        assert_eq!(
            report_path(&["node", "--write"], true),
            "docs/reference/benchmarks-nodes-shipped.md"
        );
        let peers = report_path(&["call", "--peers", "--write"], false);
        assert_eq!(peers, "docs/reference/benchmarks-peers.md");
    }
}
