//! Built-in tools: their declarations in a `tool_registry.yaml`, and the executors that run them.
//!
//! Names, schemas, traits and limits are defined in the file only. A crate that ships tools binds
//! each declaration to its function.

mod blocking;
mod blocking_task;
mod builtin_tool;
mod manifest_registry;

pub use blocking::{GIVEN_UP, cancelled_error, run_blocking, unless_given_up};
pub use blocking_task::{BlockingTask, ProgressExecutor, TaskContext};
pub use builtin_tool::{
    BlockingExecutor, BuiltinTool, InlineExecutor, ToolFunction, completed_step, to_outcome,
};
pub use manifest_registry::{ManifestRegistry, NumericLimit, ToolDeclaration, ToolRestriction};
