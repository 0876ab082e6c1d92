//! Sources that Toolkeep reaches: tool files, HTTP modules, MCP servers.

pub mod mcp;
pub mod tool_file;
