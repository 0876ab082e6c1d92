//! `python_eval`: Python by an interpreter that has no files, no net and no programs, in a worker.

use std::sync::Arc;

use serde_json::Value;
use tool::{Boxed, Context, ExecuteError, Executor, Granted, Step};

use crate::worker::{Job, Workers};
use tool_manifest::Builtin;
use tool_manifest::Registry;

pub(crate) fn builtin(registry: &Registry, workers: &Arc<Workers>) -> Option<Builtin> {
    Some(registry.get("python_eval")?.run_by(PythonEval(Arc::clone(workers))))
}

#[derive(Debug)]
struct PythonEval(Arc<Workers>);

impl Executor for PythonEval {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        let args = &call.call().args;
        let empty = args.value().get("expression").and_then(Value::as_str).is_none_or(|text| {
            // Nothing but space has no value either.
            text.trim().is_empty()
        });
        Box::pin(async move {
            if empty {
                return Ok(Step::Done(tool::Outcome::failed("expression: is empty")));
            }
            self.0.run(Job::PYTHON, args.raw(), ctx).await
        })
    }
}
