//! The program behind the binary: command line, configuration, wiring.

pub mod cli;
pub mod clock;
pub mod config;
pub mod forward;
#[cfg(test)]
mod golden;
mod shipped;
pub mod wire;
