//! The program behind the binary: command line, configuration, wiring.

pub mod cli;
pub mod config;
#[cfg(test)]
mod golden;
