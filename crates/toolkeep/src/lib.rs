//! The program behind the binary: command line, configuration, wiring.

pub mod config;
