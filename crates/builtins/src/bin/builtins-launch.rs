//! Test binary of this crate: runs the supervisor, the sandbox self-test and the workers.

use std::alloc::System;
use std::process::ExitCode;

use sandbox::LimitedAllocator;

#[global_allocator]
static ALLOCATOR: LimitedAllocator<System> = LimitedAllocator(System);

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(word) if word == "__launch" => sandbox::process::run_supervisor(args),
        Some(word) if word == sandbox::SELF_TEST_COMMAND => sandbox::run_escape_attempts(args),
        Some(word) if word == builtins::POOL_WORKER_COMMAND => builtins::run_pool_worker(&[]),
        Some(word) if word == builtins::FOLDER_READER_COMMAND => builtins::run_folder_reader(args),
        _ => ExitCode::from(64),
    }
}
