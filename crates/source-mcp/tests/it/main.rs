//! MCP servers as sources, against real children and sockets.

#[cfg(test)]
mod mcp;
#[cfg(test)]
mod real;
