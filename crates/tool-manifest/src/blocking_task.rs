//! Long-running work on a blocking thread. Reports progress and stops when the call is cancelled.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tool::{
    BoxFuture, CallArguments, CallContext, Caller, ExecuteError, ExecutionState, Executor, Json,
    RecordedCall, ToolCall,
};

use crate::blocking::run_blocking;
use crate::builtin_tool::to_outcome;

/// Interval of progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// Long-running work for one call.
pub trait BlockingTask: Send + Sync + fmt::Debug {
    /// Computes the result, or returns an error message for the model.
    fn run_task(&self, job: &TaskContext) -> Result<Json, String>;

    /// See [`Executor::validate_arguments`].
    fn check_args(&self, _args: &CallArguments) -> Result<(), String> {
        Ok(())
    }
}

/// A call with its caller, progress counter and cancellation flag.
#[derive(Debug, Clone)]
pub struct TaskContext {
    /// The call that the work serves.
    pub call: ToolCall,
    /// The caller of the call.
    pub caller: Caller,
    stop: CancellationToken,
    /// Completed bytes or items.
    done: Arc<AtomicU64>,
}

impl TaskContext {
    /// Adds to the progress and checks for cancellation.
    ///
    /// # Errors
    /// If the call was cancelled; the work must stop then.
    pub fn advance_by(&self, done: u64) -> Result<(), String> {
        self.done.fetch_add(done, Ordering::Relaxed);
        if self.stop.is_cancelled() {
            return Err("the call was cancelled".to_owned());
        }
        Ok(())
    }
}

/// Runs [`BlockingTask`] on a blocking thread.
#[derive(Debug)]
pub struct ProgressExecutor<T>(pub(crate) Arc<T>);

impl<T: BlockingTask + 'static> Executor for ProgressExecutor<T> {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        let (work, stop, done) = (Arc::clone(&self.0), CancellationToken::new(), Arc::default());
        let (call, caller) = (call.call().clone(), ctx.caller.clone());
        let job = TaskContext { call, caller, stop: stop.clone(), done: Arc::clone(&done) };
        Box::pin(async move {
            let mut working = pin!(run_blocking(stop.clone(), move || work.run_task(&job)));
            let mut cancelled = ctx.cancel.cancelled();
            let worked = loop {
                let tick = tokio::time::sleep(PROGRESS_INTERVAL);
                tokio::select! {
                    worked = &mut working => break worked,
                    () = &mut cancelled => stop.cancel(),
                    () = tick => {
                        let done = done.load(Ordering::Relaxed);
                        #[expect(clippy::cast_precision_loss, reason = "for a bar to look at")]
                        ctx.progress.report_progress(done as f64, None, None);
                        continue;
                    }
                }
                // Cancelled: it ends at its next step.
                break working.await;
            };
            Ok(ExecutionState::Completed(to_outcome(worked?)))
        })
    }

    fn validate_arguments(&self, args: &CallArguments) -> Result<(), String> {
        self.0.check_args(args)
    }
}

#[cfg(test)]
mod tests {
    use testkit::executor_run::{CancelSwitch, run_cancellable};
    use tool::{Json, OutcomeBody};

    use super::{BlockingTask, TaskContext};
    use crate::ManifestRegistry;

    const TOOLS: &str = r#"[{"name": "endless", "category": "data", "description": "Never ends.",
        "parameters": {}, "returns": {"type": "any"}, "permissions": [], "side_effects": ["read_only"],
        "allowed_callers": ["direct"], "examples": []}]"#;

    /// Works for as long as somebody waits.
    #[derive(Debug)]
    struct Endless;
    impl BlockingTask for Endless {
        fn run_task(&self, job: &TaskContext) -> Result<Json, String> {
            loop {
                job.advance_by(1)?;
                std::thread::yield_now();
            }
        }
    }

    #[tokio::test]
    async fn work_ends_when_the_call_is_cancelled() {
        let registry = ManifestRegistry::from_json(TOOLS).unwrap();
        let endless = registry.find_tool("endless").unwrap().with_progress(Endless);
        let cancel = CancelSwitch::default();
        cancel.cancel_call();
        let outcome =
            run_cancellable(&endless.tool, &*endless.executor, "{}", &cancel).await.unwrap();
        let OutcomeBody::Value(json) = &outcome.body else { panic!("an MCP result") };
        assert!(outcome.is_error && json.as_str().contains("cancelled"), "{json:?}");
    }
}
