//! Test binary of this crate: runs the supervisor, the sandbox self-test and the workers.

use std::alloc::System;
use std::process::ExitCode;

use sandbox::Rationed;

#[global_allocator]
static ALLOCATOR: Rationed<System> = Rationed(System);

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(word) if word == "__launch" => sandbox::process::supervise(args),
        Some(word) if word == sandbox::PROBE => sandbox::probe(args),
        Some(word) if word == builtins::WORK => builtins::work(&[]),
        Some(word) if word == builtins::READ_FOLDER => builtins::read_folder(args),
        _ => ExitCode::from(64),
    }
}
