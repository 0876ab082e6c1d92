//! Built-in tool that solves equations symbolically.
//!
//! Separate crate for a computer algebra system, which takes a minute to compile. The system has no
//! deadline, so it runs in a sandboxed worker of `builtins` that is killed at its time limit. Every
//! solution is verified by independent arithmetic before it is returned.

mod cas_lowering;
mod equation_parser;
mod equation_solver;
mod numeric_eval;
mod polynomial_roots;
mod python_notation;

use builtin_manifests::ToolFamily;
use std::sync::Arc;
use std::time::Duration;

use builtins::{JobHandler, SandboxProvider, WorkerJob, WorkerPool};
use tool::{BoxFuture, CallContext, ExecuteError, ExecutionState, Executor, RecordedCall};
use tool_manifest::BuiltinTool;

pub use equation_solver::solve_equations;

/// Worker job that solves equations, with its time limit.
pub const SOLVE_JOB: WorkerJob = WorkerJob::new(b'E', Duration::from_secs(10));

/// Handler of [`SOLVE_JOB`] in the worker process, for `builtins::run_pool_worker`.
pub const SOLVE_JOB_HANDLER: JobHandler = (SOLVE_JOB, solve_equations);

/// Creates the tools, in listing order. They run in workers of `sandboxes`.
pub fn symbolic_tools(sandboxes: &Arc<SandboxProvider>) -> Vec<BuiltinTool> {
    let workers = Arc::new(WorkerPool::new(Arc::clone(sandboxes)));
    let made = |declared: &tool_manifest::ToolDeclaration| {
        declared.with_executor(SymbolicSolveExecutor(Arc::clone(&workers)))
    };
    ToolFamily::Symbolic.registry().find_tool("symbolic_solve").map(made).into_iter().collect()
}

#[derive(Debug)]
struct SymbolicSolveExecutor(Arc<WorkerPool>);

impl Executor for SymbolicSolveExecutor {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        let args = call.call().arguments.as_json();
        Box::pin(self.0.run_job(SOLVE_JOB, args, ctx))
    }
}

#[cfg(test)]
mod tests;
