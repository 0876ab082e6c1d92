//! Shared fixtures: an installation on disk, its server and clients, modules and processes.

pub(crate) mod http_module;
pub(crate) mod installation;
pub(crate) mod mcp_source;
pub(crate) mod process_marks;
pub(crate) mod rest_client;
pub(crate) mod seeded_random;
pub(crate) mod server_process;

/// `few` tries, or `many` where `TOOLKEEP_DEEP` is set, as `cargo xtask test --deep` does.
pub(crate) fn run_count(few: usize, many: usize) -> usize {
    if std::env::var_os("TOOLKEEP_DEEP").is_some() { many } else { few }
}
