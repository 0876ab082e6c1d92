//! Mock executors for tests.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tool::{
    BoxFuture, CallArguments, CallContext, ExecuteError, ExecutionState, Executor, Json, Outcome,
    RecordedCall,
};

/// An executor that returns its arguments.
pub fn echo_executor() -> Arc<dyn Executor> {
    Arc::new(MockExecutor::new(|args| Ok(ExecutionState::Completed(Outcome::from_value(args)))))
}

/// The result of a scripted call.
pub type ScriptResult = std::result::Result<ExecutionState, ExecuteError>;

/// An executor that runs a function and counts its calls.
pub struct MockExecutor {
    script: Box<dyn Fn(Json) -> ScriptResult + Send + Sync>,
    check: Option<ArgumentCheck>,
    calls: AtomicUsize,
}

/// Checks arguments before execution.
type ArgumentCheck = Box<dyn Fn(&CallArguments) -> std::result::Result<(), String> + Send + Sync>;

impl MockExecutor {
    /// Creates an executor with this function.
    pub fn new(script: impl Fn(Json) -> ScriptResult + Send + Sync + 'static) -> Self {
        Self { script: Box::new(script), check: None, calls: AtomicUsize::new(0) }
    }

    /// Creates an executor that also validates arguments with `check`.
    #[must_use]
    pub fn with_check(
        self,
        check: impl Fn(&CallArguments) -> std::result::Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self { check: Some(Box::new(check)), ..self }
    }

    /// The number of executions.
    pub fn call_count(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for MockExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripted")
    }
}

impl Executor for MockExecutor {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        _: &'a CallContext<'a>,
    ) -> BoxFuture<'a, ScriptResult> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move { (self.script)(call.call().arguments.as_json().clone()) })
    }

    fn validate_arguments(&self, args: &CallArguments) -> std::result::Result<(), String> {
        self.check.as_ref().map_or(Ok(()), |check| check(args))
    }
}

/// An executor that never returns; it ends on cancellation if it honors that.
#[derive(Debug)]
pub struct HangingExecutor {
    /// Whether it honors the cancel signal.
    pub honors_cancel: bool,
}

impl Executor for HangingExecutor {
    fn execute<'a>(
        &'a self,
        _: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, ScriptResult> {
        Box::pin(async move {
            if self.honors_cancel {
                ctx.cancel.cancelled().await;
                return Err(ExecuteError::maybe_sent(tool::ErrorCode::Cancelled, "stopped"));
            }
            std::future::pending().await
        })
    }
}
