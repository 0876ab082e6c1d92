//! Which measurement the words ask for.

use crate::{
    call, catalog, compute, emulated, formats, node, options, part, perf, plugins, policy,
    programs, start, tools,
};

/// Runs it.
///
/// # Errors
/// How it is used, or what went wrong.
pub(crate) async fn run(words: &[&str]) -> Result<(), String> {
    match words {
        ["call", flags @ ..] => call::run(flags).await,
        ["catalog", flags @ ..] => catalog::run(flags).await,
        ["emulated", flags @ ..] => emulated::run(flags).await,
        ["formats", flags @ ..] => formats::run(flags),
        ["start", flags @ ..] => start::run(flags).await,
        ["math", flags @ ..] => compute::run(flags).await,
        ["plugins", flags @ ..] => plugins::run(flags).await,
        ["policy", flags @ ..] => policy::run(flags).await,
        ["programs", flags @ ..] => programs::run(flags).await,
        ["tools", flags @ ..] => tools::run(flags).await,
        ["node", flags @ ..] => node::run(flags).await,
        ["part", part @ ..] => part::run(part).await,
        ["load", rest @ ..] => perf::load(rest).await,
        _ => Err(options::USAGE.to_owned()),
    }
}
