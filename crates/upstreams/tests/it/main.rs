//! Sources and executors against real files and real servers.

#[cfg(test)]
mod fakes;
#[cfg(test)]
mod tool_file;
