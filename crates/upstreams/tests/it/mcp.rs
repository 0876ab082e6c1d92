//! MCP servers as sources.

mod calls;
mod life;
mod listing;
mod peer;
mod runs;
