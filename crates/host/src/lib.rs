//! What the operating system gives this process: time, file descriptors and memory, and how they are shared out.

pub mod clock;
pub mod descriptors;
pub mod memory;
