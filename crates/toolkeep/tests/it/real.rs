//! Real servers and a real client, from the package registries: what is installed by
//! `cargo xtask provision`, whose folder `TOOLKEEP_REAL` names.

mod calls;
mod chart;
mod doors;
mod fifteen;
mod installed;
mod lisp;
mod mcp_file;
mod nodes;
mod program_tokens;
mod providers;
mod record;
mod redis;
mod shared;
mod tokens;
