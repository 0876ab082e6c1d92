//! `cargo xtask generate`: the documents that are written by the code they describe.
//!
//! Each is the golden file of a test whose name or module holds `golden`. With `TOOLKEEP_BLESS=1`
//! such a test writes its file, without it compares; so the check is nothing but the test.

use std::process::Command;

use crate::children::shown;
use crate::tally;
use crate::tools;
use crate::workspace::{Workspace, cargo};

/// Whether to write or to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Write every document anew.
    Write,
    /// Fail where one is stale.
    Check,
}

/// Runs the golden tests.
///
/// # Errors
/// Where one fails, or there is none.
pub(crate) fn run(workspace: &Workspace, mode: Mode) -> Result<(), String> {
    tools::nextest(workspace)?;
    let mut command = Command::new(cargo());
    command.current_dir(&workspace.root).env("PATH", tools::path(&workspace.target));
    command.args(["nextest", "run", "--workspace", "--locked", "-E", "test(golden)"]);
    if mode == Mode::Write {
        command.env("TOOLKEEP_BLESS", "1").env("INSTA_UPDATE", "always");
    }
    let ended = shown(&mut command)?;
    let tally = tally::nextest(&ended.err).ok_or("nextest printed no summary")?;
    match (ended.status.success(), tally.passed, mode) {
        (_, 0, _) => Err("no golden test ran".to_owned()),
        (true, passed, Mode::Write) => {
            println!("{passed} golden tests wrote their documents; `git diff` shows what changed");
            Ok(())
        }
        (true, passed, Mode::Check) => {
            println!("{passed} golden tests agree with their documents");
            Ok(())
        }
        (false, ..) => {
            Err("a document is stale; run `cargo xtask generate` and read the diff".to_owned())
        }
    }
}
