//! Where the log goes: to standard error, as much as `TOOLKEEP_LOG` asks for.

use tracing_subscriber::EnvFilter;

use super::context::Context;
use super::ui::Output;

/// Starts the log. A server tells what it does; other commands only what is wrong.
pub(super) fn start(server: bool, context: &Context<'_>) {
    let usual = if server { "info" } else { "error" };
    let asked = context.environment.get("TOOLKEEP_LOG").unwrap_or(usual);
    let filter = EnvFilter::try_new(asked).unwrap_or_else(|_| EnvFilter::new(usual));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Where a log is there already, as in a test, it stays.
    let _there = match context.common.output {
        Output::Json | Output::Yaml => log.json().try_init(),
        Output::Text | Output::Table => log.with_ansi(false).try_init(),
    };
}
