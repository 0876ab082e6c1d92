//! Mock executors for tests.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tool::{Args, Boxed, Context, ExecuteError, Executor, Granted, Json, Outcome, Step};

/// An executor that returns its arguments.
pub fn echo() -> Arc<dyn Executor> {
    Arc::new(Scripted::new(|args| Ok(Step::Done(Outcome::value(args)))))
}

/// The result of a scripted call.
pub type Result = std::result::Result<Step, ExecuteError>;

/// An executor that runs a function and counts its calls.
pub struct Scripted {
    script: Box<dyn Fn(Json) -> Result + Send + Sync>,
    check: Option<Check>,
    calls: AtomicUsize,
}

/// Checks arguments before execution.
type Check = Box<dyn Fn(&Args) -> std::result::Result<(), String> + Send + Sync>;

impl Scripted {
    /// Creates an executor with this function.
    pub fn new(script: impl Fn(Json) -> Result + Send + Sync + 'static) -> Self {
        Self { script: Box::new(script), check: None, calls: AtomicUsize::new(0) }
    }

    /// Creates an executor that also validates arguments with `check`.
    #[must_use]
    pub fn checked(
        self,
        check: impl Fn(&Args) -> std::result::Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self { check: Some(Box::new(check)), ..self }
    }

    /// The number of executions.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripted")
    }
}

impl Executor for Scripted {
    fn execute<'a>(&'a self, call: Granted<'a>, _: &'a Context<'a>) -> Boxed<'a, Result> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move { (self.script)(call.call().args.raw().clone()) })
    }

    fn check_args(&self, args: &Args) -> std::result::Result<(), String> {
        self.check.as_ref().map_or(Ok(()), |check| check(args))
    }
}

/// An executor that never returns; it ends on cancellation if it honors that.
#[derive(Debug)]
pub struct Hanging {
    /// Whether it honors the cancel signal.
    pub listens: bool,
}

impl Executor for Hanging {
    fn execute<'a>(&'a self, _: Granted<'a>, ctx: &'a Context<'a>) -> Boxed<'a, Result> {
        Box::pin(async move {
            if self.listens {
                ctx.cancel.cancelled().await;
                return Err(ExecuteError::during(tool::Code::Cancelled, "stopped"));
            }
            std::future::pending().await
        })
    }
}
