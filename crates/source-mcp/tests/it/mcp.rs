//! Tests of MCP servers as sources.

mod attribution;
mod callers;
mod calls;
mod children;
mod curious;
mod endpoints;
mod eras;
mod events;
mod extensions;
mod http;
mod idle_stop;
mod life;
mod listing;
mod marks;
mod methods;
mod oauth;
mod peer;
mod questions;
pub(crate) mod runs;
mod sessions;
pub(crate) mod site;
mod skills;
mod streams;
mod tasks;
