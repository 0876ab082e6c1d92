//! `sql_query`: runs SQL over tables passed in the call, with SQLite in a worker.

use std::sync::Arc;

use tool::{Boxed, Context, ExecuteError, Executor, Granted, Step};

use crate::worker::{Job, Workers};
use tool_manifest::Builtin;
use tool_manifest::Registry;

pub(crate) fn builtin(registry: &Registry, workers: &Arc<Workers>) -> Option<Builtin> {
    Some(registry.get("sql_query")?.run_by(SqlQuery(Arc::clone(workers))))
}

#[derive(Debug)]
struct SqlQuery(Arc<Workers>);

impl Executor for SqlQuery {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        Box::pin(self.0.run(Job::SQL, call.call().args.raw(), ctx))
    }
}
