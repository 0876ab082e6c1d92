//! Sources and executors against real files, sockets, children and servers.

#[cfg(test)]
mod fakes;
#[cfg(test)]
mod http_tools;
#[cfg(test)]
mod layers;
#[cfg(test)]
mod mcp;
#[cfg(test)]
mod module;
#[cfg(test)]
mod real;
#[cfg(test)]
mod server;
#[cfg(test)]
mod tool_file;
