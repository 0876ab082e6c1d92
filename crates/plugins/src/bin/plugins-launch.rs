//! Test binary of this crate: the supervisor, and probes of the sandbox.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(word) if word == "__launch" => sandbox::process::run_supervisor(args),
        Some(word) if word == sandbox::SELF_TEST_COMMAND => sandbox::run_escape_attempts(args),
        _ => ExitCode::from(64),
    }
}
