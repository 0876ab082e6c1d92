//! The binary: the jobs for which it runs itself again, and the command line.

use std::ffi::OsString;
use std::process::ExitCode;

use cli_core::launch::LAUNCH;
use mimalloc::MiMalloc;
use sandbox::Rationed;
use toolkeep::Real;

// Faster than the system's where many threads allocate at once, as calls do. In a worker it counts.
#[global_allocator]
static ALLOCATOR: Rationed<MiMalloc> = Rationed(MiMalloc);

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let program = args.next().unwrap_or_else(|| OsString::from("toolkeep"));
    let mut rest = args.peekable();
    // Before there is any thread: a supervisor forks.
    if rest.next_if(|word| word == LAUNCH).is_some() {
        return sandbox::process::supervise(rest);
    }
    if rest.next_if(|word| word == sandbox::PROBE).is_some() {
        return sandbox::probe(rest);
    }
    if rest.next_if(|word| word == builtins::WORK).is_some() {
        return builtins::work(&[builtins_symbolic::EXTRA]);
    }
    if rest.next_if(|word| word == builtins_llm::MODEL_WORK).is_some() {
        return builtins_llm::serve_model(rest, &[]);
    }
    if rest.next_if(|word| word == builtins::READ_FOLDER).is_some() {
        return builtins::read_folder(rest);
    }
    cli::main(&Real, std::iter::once(program).chain(rest))
}
