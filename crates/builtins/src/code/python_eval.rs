//! `python_eval`: runs Python in a worker, by an interpreter without access to files, network or
//! programs.

use std::sync::Arc;

use serde_json::Value;
use tool::{BoxFuture, CallContext, ExecuteError, ExecutionState, Executor, RecordedCall};

use crate::worker_pool::{WorkerJob, WorkerPool};
use tool_manifest::BuiltinTool;
use tool_manifest::ManifestRegistry;

pub(crate) fn build_tool(
    registry: &ManifestRegistry,
    workers: &Arc<WorkerPool>,
) -> Option<BuiltinTool> {
    Some(registry.find_tool("python_eval")?.with_executor(PythonEval(Arc::clone(workers))))
}

#[derive(Debug)]
struct PythonEval(Arc<WorkerPool>);

impl Executor for PythonEval {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        let args = &call.call().arguments;
        let empty = args.as_value().get("expression").and_then(Value::as_str).is_none_or(|text| {
            // Whitespace alone has no value either.
            text.trim().is_empty()
        });
        Box::pin(async move {
            if empty {
                return Ok(ExecutionState::Completed(tool::Outcome::tool_failure(
                    "expression: is empty",
                )));
            }
            self.0.run_job(WorkerJob::PYTHON, args.as_json(), ctx).await
        })
    }
}
