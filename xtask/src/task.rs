//! Which task the words ask for.

use crate::workspace::Workspace;
use crate::{bench, generate, provision, release, test, tidy};

const USAGE: &str = "\
usage: cargo xtask TASK

  test [--hermetic] [--deep] [--without data|root]
                               everything that must hold; --hermetic installs nothing,
                               --deep runs the full counts; --without leaves out tests that
                               need what this machine has not, which else count as failed
  tidy                         what no compiler checks: arrows, sizes, forgotten files
  generate [--check]           the documents that tests write; --check only compares
  provision                    installs the real programs that tests need, and says where
  release                      the program as it is shipped, its hot path laid out by a profile
  bench call|node [OPTIONS]    what a call costs, or one of a node's tool; `bench call --help`
  bench emulated [--write]     instructions of the whole system for a call, on any machine
";

/// Runs it.
///
/// # Errors
/// How tasks are called, or what went wrong; nothing where that was told already.
pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    match words {
        ["test", flags @ ..] => test::run(&Workspace::open()?, test::Options::parse(flags)?),
        ["tidy"] => tidy::run(&Workspace::open()?),
        ["generate"] => generate::run(&Workspace::open()?, generate::Mode::Write),
        ["generate", "--check"] => generate::run(&Workspace::open()?, generate::Mode::Check),
        ["provision"] => provision::show(&Workspace::open()?),
        ["release"] => release::run(&Workspace::open()?),
        ["bench", rest @ ..] => bench::run(&Workspace::open()?, rest),
        _ => Err(format!("`{}` is no task\n\n{USAGE}", words.join(" "))),
    }
}
