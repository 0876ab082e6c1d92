//! Sources that Toolkeep reaches: tool files, HTTP modules, MCP servers.

pub mod layers;
pub mod mcp;
pub mod module;
pub mod tool_file;
