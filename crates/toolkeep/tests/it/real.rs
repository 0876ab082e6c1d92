//! Tests with real servers and clients from package registries, installed by `cargo xtask
//! provision` into `TOOLKEEP_REAL`.

mod all_interfaces;
mod calls;
mod everything_server;
mod fifteen_servers;
mod first_approval;
mod helm_chart;
mod installed_programs;
mod issuer_sign_in;
mod lisp;
mod mcp_file;
mod nodes;
mod program_tokens;
mod providers;
mod record;
mod redis;
mod shared_registry;
mod tokens;
mod tool_search;
