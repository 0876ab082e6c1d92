//! What things cost: `cargo xtask bench call` and others. One program plays every part but Toolkeep's own.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement prints, looks at the clock, starts programs and dials them itself"
)]
#![expect(clippy::cast_precision_loss, reason = "counts and times become figures of three digits")]

mod call;
mod callgrind;
mod catalog;
mod compute;
mod emulated;
mod formats;
mod goal;
mod histogram;
mod lists;
mod load;
mod machine;
mod message;
mod node;
mod options;
mod part;
mod peers;
mod perf;
mod plugins;
mod policy;
mod programs;
mod report;
mod run;
mod serve;
mod start;
mod target;
mod toolkeep;
mod tools;

use std::process::ExitCode;

/// The allocator of the product, for every part alike.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let Err(message) = run::run(&words).await else { return ExitCode::SUCCESS };
    println!("{message}");
    ExitCode::FAILURE
}
