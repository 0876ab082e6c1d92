//! The tasks of the repository, run as `cargo xtask TASK`.
//!
//! Everything starts here, so it builds in seconds: two dependencies, and no crate of ours.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a task prints, reads its environment, looks at the clock and starts other programs"
)]

mod bench;
mod children;
mod generate;
mod kubernetes;
mod pins;
mod provision;
mod tally;
mod test;
mod tidy;
mod tools;
mod workspace;

use std::process::ExitCode;

use workspace::Workspace;

const USAGE: &str = "\
usage: cargo xtask TASK

  test [--hermetic] [--deep]   everything that must hold; --hermetic installs nothing,
                               --deep runs the full counts
  tidy                         what no compiler checks: arrows, sizes, forgotten files
  generate [--check]           the documents that tests write; --check only compares
  provision                    installs the real programs that tests need, and says where
  bench call|node [OPTIONS]    what a call costs, or one of a node's tool; `bench call --help`
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) if message.is_empty() => ExitCode::FAILURE,
        Err(message) => {
            println!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<(), String> {
    match words {
        ["test", flags @ ..] => test::run(&Workspace::open()?, test::Options::parse(flags)?),
        ["tidy"] => tidy::run(&Workspace::open()?),
        ["generate"] => generate::run(&Workspace::open()?, generate::Mode::Write),
        ["generate", "--check"] => generate::run(&Workspace::open()?, generate::Mode::Check),
        ["provision"] => provision::show(&Workspace::open()?),
        ["bench", rest @ ..] => bench::run(&Workspace::open()?, rest),
        _ => Err(format!("`{}` is no task\n\n{USAGE}", words.join(" "))),
    }
}
