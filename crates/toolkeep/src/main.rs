//! The binary: command line, configuration, wiring.

use std::process::ExitCode;

use toolkeep::wire::Real;

// Faster than the system's where many threads allocate at once, as calls do.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    toolkeep::cli::main(&Real)
}
