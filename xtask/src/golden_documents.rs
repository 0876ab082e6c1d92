//! `cargo xtask generate`: writes the documents that are generated from code.
//!
//! Each document is the golden file of a test with `golden` in its name or module. With
//! `TOOLKEEP_BLESS=1` such a test writes its file, otherwise it compares. The check is therefore
//! the test itself.

use std::process::Command;

use crate::child_processes::run_visible;
use crate::test_counts;
use crate::test_runner;
use crate::workspace::{Workspace, cargo_program};

/// Whether to write or to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GoldenMode {
    /// Writes every document.
    Write,
    /// Fails if a document is outdated.
    Check,
}

/// Runs the golden tests.
///
/// # Errors
/// If a test fails, or there is none.
pub(crate) fn run_golden_tests(workspace: &Workspace, mode: GoldenMode) -> Result<(), String> {
    test_runner::ensure_nextest(workspace)?;
    let mut command = Command::new(cargo_program());
    command
        .current_dir(&workspace.root_dir)
        .env("PATH", test_runner::search_path(&workspace.target_dir));
    command.args(["nextest", "run", "--workspace", "--locked", "-E", "test(golden)"]);
    if mode == GoldenMode::Write {
        command.env("TOOLKEEP_BLESS", "1").env("INSTA_UPDATE", "always");
    }
    let output = run_visible(&mut command)?;
    let tally =
        test_counts::parse_nextest(&output.stderr_text).ok_or("nextest printed no summary")?;
    match (output.status.success(), tally.passed, mode) {
        (_, 0, _) => Err("no golden test ran".to_owned()),
        (true, passed, GoldenMode::Write) => {
            println!("{passed} golden tests wrote their documents; `git diff` shows what changed");
            Ok(())
        }
        (true, passed, GoldenMode::Check) => {
            println!("{passed} golden tests agree with their documents");
            Ok(())
        }
        (false, ..) => {
            Err("a document is stale; run `cargo xtask generate` and read the diff".to_owned())
        }
    }
}
