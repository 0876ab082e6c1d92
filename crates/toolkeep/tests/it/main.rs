//! The binary as people run it.
#[cfg(test)]
mod program;
#[cfg(test)]
mod record;
#[cfg(test)]
mod serve;
#[cfg(test)]
mod without_server;
