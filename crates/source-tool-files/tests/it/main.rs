//! Tool files on a real disk, and their tools over real sockets.

#[cfg(test)]
mod http_tools;
#[cfg(test)]
mod tool_file;
