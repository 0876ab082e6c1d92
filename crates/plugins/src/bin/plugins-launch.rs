//! For the tests of this crate only: the supervisor, and what tries the cage.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(word) if word == "__launch" => sandbox::process::supervise(args),
        Some(word) if word == sandbox::PROBE => sandbox::probe(args),
        _ => ExitCode::from(64),
    }
}
