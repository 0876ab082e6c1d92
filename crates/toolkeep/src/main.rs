//! The binary: command line, configuration, wiring.

use std::process::ExitCode;

use guard::heap::Heap;
use guard::sandbox::Rationed;
use toolkeep::wire::Real;

// Faster than the system's where many threads allocate at once, as calls do. In a worker it counts.
#[global_allocator]
static ALLOCATOR: Rationed<Heap> = Rationed(Heap);

fn main() -> ExitCode {
    toolkeep::cli::main(&Real)
}
