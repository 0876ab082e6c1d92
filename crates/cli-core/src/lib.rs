//! Shared parts of the commands: the connection to a server, the output, errors and exit codes, and
//! the data directory.

pub mod background;
pub mod client;
pub mod context;
pub mod data;
pub mod door;
pub mod failure;
pub mod launch;
pub mod logging;
pub mod pages;
pub mod replace;
pub mod session;
pub mod signals;
pub mod ui;
pub mod value;
pub mod wiring;
