//! What things cost: run as `cargo xtask bench call`, `formats`, `policy`, `tools`, `node` and others.
//! One program plays every part but Toolkeep's own: servers behind, the proxy beside, callers in front.
//! Lists and decisions are measured within the program; of a call what is measured is what is shipped.
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
mod formats;
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
mod report;
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
    let done = match words.as_slice() {
        ["call", flags @ ..] => call::run(flags).await,
        ["catalog", flags @ ..] => catalog::run(flags).await,
        ["formats", flags @ ..] => formats::run(flags),
        ["start", flags @ ..] => start::run(flags).await,
        ["math", flags @ ..] => compute::run(flags).await,
        ["plugins", flags @ ..] => plugins::run(flags).await,
        ["policy", flags @ ..] => policy::run(flags).await,
        ["tools", flags @ ..] => tools::run(flags).await,
        ["node", flags @ ..] => node::run(flags).await,
        ["part", part @ ..] => part::run(part).await,
        ["load", rest @ ..] => perf::load(rest).await,
        _ => Err(options::USAGE.to_owned()),
    };
    let Err(message) = done else { return ExitCode::SUCCESS };
    println!("{message}");
    ExitCode::FAILURE
}
