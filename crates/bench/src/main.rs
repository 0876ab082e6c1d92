//! Benchmarks of Toolkeep, started by `cargo xtask bench`. This program also runs as every helper
//! process.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement prints, looks at the clock, starts programs and dials them itself"
)]
#![expect(clippy::cast_precision_loss, reason = "counts and times become figures of three digits")]

mod allocation_count;
mod call;
mod callgrind_profile;
mod catalog;
mod command_dispatch;
mod console;
mod growth;
mod helper_process;
mod histogram;
mod http_loop;
mod instruction_count;
mod load_generator;
mod math_tools;
mod node;
mod options;
mod peer_gateways;
mod perf_counters;
mod plugins;
mod policy;
mod programs;
mod report;
mod search;
mod server_start;
mod system_stats;
mod target;
mod target_check;
mod timed_request;
mod tool_lists;
mod toolkeep_process;
mod tools;

use std::process::ExitCode;

/// The allocator of the product, used by every helper process too; `bench growth` has it count.
#[global_allocator]
static ALLOCATOR: allocation_count::CountingAllocator<mimalloc::MiMalloc> =
    allocation_count::CountingAllocator(mimalloc::MiMalloc);

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let Err(message) = command_dispatch::run_command(&words).await else {
        return ExitCode::SUCCESS;
    };
    println!("{message}");
    ExitCode::FAILURE
}
