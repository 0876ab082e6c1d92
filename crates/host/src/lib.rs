//! Resources of this process from the operating system: clocks, file descriptors and memory.

pub mod clock;
pub mod descriptors;
pub mod memory;
