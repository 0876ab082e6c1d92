//! MCP servers as sources.

mod calls;
mod children;
mod endpoints;
mod http;
mod life;
mod listing;
mod marks;
mod peer;
mod runs;
mod site;
