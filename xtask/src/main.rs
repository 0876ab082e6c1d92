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
mod emulated;
mod generate;
mod kubernetes;
mod pins;
mod provision;
mod release;
mod tally;
mod task;
mod test;
mod tidy;
mod tools;
mod workspace;

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(ended) = release::as_rustc() {
        return ended;
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match task::run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) if message.is_empty() => ExitCode::FAILURE,
        Err(message) => {
            println!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
