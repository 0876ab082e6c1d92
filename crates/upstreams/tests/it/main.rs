//! Sources against real files, sockets and children.

#[cfg(test)]
mod mcp;
