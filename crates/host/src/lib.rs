//! Resources of this process from the operating system: clocks, connections, file descriptors and memory.

pub mod bounded_listener;
pub mod clock;
pub mod descriptors;
pub mod memory;
