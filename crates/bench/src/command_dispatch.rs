//! Dispatch of the command-line words to the benchmarks.

use crate::{
    call, catalog, console, growth, helper_process, instruction_count, math_tools, node, options,
    perf_counters, plugins, policy, programs, search, server_start, tools,
};

/// Runs the benchmark that the words name.
///
/// # Errors
/// The usage text, or the error of the benchmark.
pub(crate) async fn run_command(args: &[&str]) -> Result<(), String> {
    match args {
        ["call", flags @ ..] => call::run_call_bench(flags).await,
        ["catalog", flags @ ..] => catalog::run_catalog_bench(flags).await,
        ["console", flags @ ..] => console::run_console_bench(flags).await,
        ["emulated", flags @ ..] => instruction_count::run_emulated_bench(flags).await,
        ["start", flags @ ..] => server_start::run_start_bench(flags).await,
        ["math", flags @ ..] => math_tools::run_math_bench(flags).await,
        ["plugins", flags @ ..] => plugins::run_plugin_bench(flags).await,
        ["programs", flags @ ..] => programs::run_program_bench(flags).await,
        [name @ ("growth" | "policy" | "search"), flags @ ..] => run_in_process(name, flags).await,
        ["tools", flags @ ..] => tools::run_tool_bench(flags).await,
        ["node", flags @ ..] => node::run_node_bench(flags).await,
        ["part", part @ ..] => helper_process::run_helper(part).await,
        ["load", rest @ ..] => perf_counters::run_load(rest).await,
        _ => Err(options::USAGE.to_owned()),
    }
}

/// Runs a benchmark that needs no server.
async fn run_in_process(name: &str, flags: &[&str]) -> Result<(), String> {
    match name {
        "growth" => growth::run_growth_bench(flags).await,
        "policy" => policy::run_policy_bench(flags).await,
        _ => search::run_search_bench(flags),
    }
}
