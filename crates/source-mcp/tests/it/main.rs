//! Tests of MCP servers as sources, with real child processes and sockets.

#[cfg(test)]
mod mcp;
#[cfg(test)]
mod real;
