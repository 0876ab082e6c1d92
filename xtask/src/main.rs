//! The tasks of the repository, run as `cargo xtask TASK`.
//!
//! Everything starts here, so it builds in seconds: few dependencies, and no crate of ours.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a task prints, reads its environment, looks at the clock and starts other programs"
)]

mod bench_task;
mod child_processes;
mod debian_root;
mod dist;
mod docs;
mod emulated_bench;
mod golden_documents;
mod kubernetes_server;
mod mdbook;
mod pinned_versions;
mod release_build;
mod task;
mod test_counts;
mod test_installs;
mod test_run;
mod test_runner;
mod tidy;
mod workspace;

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(exit_code) = release_build::run_as_rustc() {
        return exit_code;
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match task::run_task(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) if message.is_empty() => ExitCode::FAILURE,
        Err(message) => {
            println!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
