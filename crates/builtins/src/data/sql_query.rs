//! `sql_query`: runs SQL over tables passed in the call, with SQLite in a worker.

use std::sync::Arc;

use tool::{BoxFuture, CallContext, ExecuteError, ExecutionState, Executor, RecordedCall};

use crate::worker_pool::{WorkerJob, WorkerPool};
use tool_manifest::BuiltinTool;
use tool_manifest::ManifestRegistry;

pub(crate) fn build_tool(
    registry: &ManifestRegistry,
    workers: &Arc<WorkerPool>,
) -> Option<BuiltinTool> {
    Some(registry.find_tool("sql_query")?.with_executor(SqlQuery(Arc::clone(workers))))
}

#[derive(Debug)]
struct SqlQuery(Arc<WorkerPool>);

impl Executor for SqlQuery {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        Box::pin(self.0.run_job(WorkerJob::SQL, call.call().arguments.as_json(), ctx))
    }
}
