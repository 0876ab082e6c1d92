//! Sources that Toolkeep reaches: tool files, HTTP modules, MCP servers.

pub mod layers;
pub mod mcp;
pub mod module;
pub mod redaction;
pub mod tool_file;
