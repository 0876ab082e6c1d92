//! The only crate that dials or spawns: egress connector, process launcher, cage, file roots.
//!
//! Everything that leaves this process goes through here, so that there is one place where an
//! address, a path or a child is judged. It decides nothing about who may call what.

pub mod descriptors;
pub mod egress;
pub mod files;
pub mod heap;
pub mod memory;
pub mod private_file;
pub mod process;
pub mod roots;
pub mod sandbox;
