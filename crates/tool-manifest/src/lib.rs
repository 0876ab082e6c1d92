//! Tools that are part of the program: what a `tool_registry.yaml` declares of each, and what runs it.
//!
//! Names, schemas, traits and limits stand in the file alone; a crate that ships tools binds each
//! declaration to its function.

mod builtin;
mod registry;
mod work;

pub use builtin::{Aside, Builtin, Compute, Pure, ended, outcome};
pub use registry::{Bound, Declared, Narrowing, Registry};
pub use work::{Job, Long, Work};
