//! The binary: starts the command line, or one of the helper processes that it runs as.

use std::ffi::OsString;
use std::process::ExitCode;

use cli_core::process_launcher::SUPERVISOR_ARG;
use mimalloc::MiMalloc;
use sandbox::LimitedAllocator;
use toolkeep::AppLauncher;

// Faster than the system's allocator when many threads allocate at once. In a worker it counts
// bytes.
#[global_allocator]
static ALLOCATOR: LimitedAllocator<MiMalloc> = LimitedAllocator(MiMalloc);

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let program = args.next().unwrap_or_else(|| OsString::from("toolkeep"));
    let mut rest = args.peekable();
    // Before any thread exists, because the supervisor forks.
    if rest.next_if(|word| word == SUPERVISOR_ARG).is_some() {
        return sandbox::process::run_supervisor(rest);
    }
    if rest.next_if(|word| word == sandbox::SELF_TEST_COMMAND).is_some() {
        return sandbox::run_escape_attempts(rest);
    }
    if rest.next_if(|word| word == builtins::POOL_WORKER_COMMAND).is_some() {
        return builtins::run_pool_worker(&[builtins_symbolic::SOLVE_JOB_HANDLER]);
    }
    if rest.next_if(|word| word == builtins_llm::MODEL_WORKER_COMMAND).is_some() {
        return builtins_llm::run_model_worker(rest, &[]);
    }
    if rest.next_if(|word| word == builtins::FOLDER_READER_COMMAND).is_some() {
        return builtins::run_folder_reader(rest);
    }
    cli::main(&AppLauncher, std::iter::once(program).chain(rest))
}
