//! Built-in tools: their declarations in a `tool_registry.yaml`, and the executors that run them.
//!
//! Names, schemas, traits and limits are defined in the file only. A crate that ships tools binds
//! each declaration to its function.

mod blocking;
mod builtin;
mod registry;
mod work;

pub use blocking::{GIVEN_UP, given_up, run_blocking, unless_given_up};
pub use builtin::{Aside, Builtin, Compute, Pure, ended, outcome};
pub use registry::{Bound, Declared, Narrowing, Registry};
pub use work::{Job, Long, Work};
