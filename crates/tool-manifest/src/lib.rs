//! Built-in tools: their declarations, and the executors that run them.
//!
//! The YAML files of `builtin-manifests` alone define names, schemas, traits and limits. A crate that ships tools binds
//! each declaration to its function.

mod blocking;
mod blocking_task;
mod builtin_tool;
mod manifest_registry;

pub use blocking::{GIVEN_UP, cancelled_error, run_blocking, run_until_cancelled};
pub use blocking_task::{BlockingTask, ProgressExecutor, TaskContext};
pub use builtin_tool::{
    BlockingExecutor, BuiltinTool, InlineExecutor, ToolFunction, completed_step, to_outcome,
};
pub use manifest_registry::{ManifestRegistry, NumericLimit, ToolDeclaration, ToolRestriction};
