//! Dispatch of the command line to a task.

use crate::workspace::Workspace;
use crate::{
    bench_task, dist, docs, golden_documents, release_build, test_installs, test_run, tidy,
};

const USAGE: &str = "\
usage: cargo xtask TASK

  test [--hermetic] [--deep] [--without NAME]...
                               everything that must hold; --hermetic installs nothing,
                               --deep runs the full counts; --without leaves out the tests
                               that need NAME, which else count as failed where it is missing;
                               `test --help` lists the names
  tidy                         what no compiler checks: arrows, sizes, forgotten files
  generate [--check]           the documents that tests write; --check only compares
  docs                         docs/ as a searchable site, with its links checked
  provision                    installs the real programs that tests need, and says where
  release                      the program as it is shipped, its hot path laid out by a profile
  dist [--binary PATH]... [--out DIR] [--only KIND]... [--fast]
                               packages for users from built programs, by default the one of
                               `release`, into target/dist; KIND is wheel, node-wheel, npm,
                               debian, script or sbom
  bench call|node [OPTIONS]    what a call costs, or one of a node's tool; `bench call --help`
  bench emulated [--write]     instructions of the whole system for a call, on any machine
";

/// Runs the task that the arguments name.
///
/// # Errors
/// The usage if no task has that name, or the reason why the task failed.
pub(crate) fn run_task(args: &[&str]) -> Result<(), String> {
    match args {
        ["test", "--help"] => {
            println!("{USAGE}\n{}", test_run::requirement_table());
            Ok(())
        }
        ["test", flags @ ..] => test_run::run_all(
            &Workspace::load_workspace()?,
            test_run::TestOptions::parse_flags(flags)?,
        ),
        ["tidy"] => tidy::run_checks(&Workspace::load_workspace()?),
        ["generate"] => golden_documents::run_golden_tests(
            &Workspace::load_workspace()?,
            golden_documents::GoldenMode::Write,
        ),
        ["generate", "--check"] => golden_documents::run_golden_tests(
            &Workspace::load_workspace()?,
            golden_documents::GoldenMode::Check,
        ),
        ["docs"] => docs::build_site(&Workspace::load_workspace()?),
        ["provision"] => test_installs::run_task(&Workspace::load_workspace()?),
        ["release"] => release_build::build_release(&Workspace::load_workspace()?),
        ["dist", flags @ ..] => dist::run_task(&Workspace::load_workspace()?, flags),
        ["bench", rest @ ..] => bench_task::run_bench(&Workspace::load_workspace()?, rest),
        _ => Err(format!("`{}` is no task\n\n{USAGE}", args.join(" "))),
    }
}
