//! Sources and executors against real files and real servers.

#[cfg(test)]
mod fakes;
#[cfg(test)]
mod layers;
#[cfg(test)]
mod module;
#[cfg(test)]
mod server;
#[cfg(test)]
mod tool_file;
