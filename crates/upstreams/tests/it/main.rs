//! Sources and executors against real files, sockets, children and servers.

#[cfg(test)]
mod fakes;
#[cfg(test)]
mod mcp;
#[cfg(test)]
mod tool_file;
