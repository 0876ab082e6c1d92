//! Long-running work on a blocking thread. Reports progress and stops when the call is cancelled.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tool::{Args, Boxed, Call, Caller, Context, ExecuteError, Executor, Granted, Json, Step};

use crate::blocking::run_blocking;
use crate::builtin::outcome;

/// Interval of progress reports.
const TELL: Duration = Duration::from_millis(250);

/// Long-running work for one call.
pub trait Work: Send + Sync + fmt::Debug {
    /// Computes the result, or returns an error message for the model.
    fn work(&self, job: &Job) -> Result<Json, String>;

    /// See [`Executor::check_args`].
    fn check_args(&self, _args: &Args) -> Result<(), String> {
        Ok(())
    }
}

/// A call with its caller, progress counter and cancellation flag.
#[derive(Debug, Clone)]
pub struct Job {
    /// The call that the work serves.
    pub call: Call,
    /// The caller of the call.
    pub caller: Caller,
    stop: CancellationToken,
    /// Completed bytes or items.
    done: Arc<AtomicU64>,
}

impl Job {
    /// Adds to the progress and checks for cancellation.
    ///
    /// # Errors
    /// If the call was cancelled; the work must stop then.
    pub fn step(&self, done: u64) -> Result<(), String> {
        self.done.fetch_add(done, Ordering::Relaxed);
        if self.stop.is_cancelled() {
            return Err("the call was cancelled".to_owned());
        }
        Ok(())
    }
}

/// Runs [`Work`] on a blocking thread.
#[derive(Debug)]
pub struct Long<T>(pub(crate) Arc<T>);

impl<T: Work + 'static> Executor for Long<T> {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        let (work, stop, done) = (Arc::clone(&self.0), CancellationToken::new(), Arc::default());
        let (call, caller) = (call.call().clone(), ctx.caller.clone());
        let job = Job { call, caller, stop: stop.clone(), done: Arc::clone(&done) };
        Box::pin(async move {
            let mut working = pin!(run_blocking(stop.clone(), move || work.work(&job)));
            let mut cancelled = ctx.cancel.cancelled();
            let worked = loop {
                let tick = tokio::time::sleep(TELL);
                tokio::select! {
                    worked = &mut working => break worked,
                    () = &mut cancelled => stop.cancel(),
                    () = tick => {
                        let done = done.load(Ordering::Relaxed);
                        #[expect(clippy::cast_precision_loss, reason = "for a bar to look at")]
                        ctx.progress.report(done as f64, None, None);
                        continue;
                    }
                }
                // Cancelled: it ends at its next step.
                break working.await;
            };
            Ok(Step::Done(outcome(worked?)))
        })
    }

    fn check_args(&self, args: &Args) -> Result<(), String> {
        self.0.check_args(args)
    }
}

#[cfg(test)]
mod tests {
    use testkit::run::{Switch, run_until};
    use tool::{Body, Json};

    use super::{Job, Work};
    use crate::Registry;

    const TOOLS: &str = r#"[{"name": "endless", "category": "data", "description": "Never ends.",
        "parameters": {}, "returns": {"type": "any"}, "permissions": [], "side_effects": ["read_only"],
        "allowed_callers": ["direct"], "examples": []}]"#;

    /// Works for as long as somebody waits.
    #[derive(Debug)]
    struct Endless;
    impl Work for Endless {
        fn work(&self, job: &Job) -> Result<Json, String> {
            loop {
                job.step(1)?;
                std::thread::yield_now();
            }
        }
    }

    #[tokio::test]
    async fn work_ends_when_the_call_is_cancelled() {
        let registry = Registry::read(TOOLS).unwrap();
        let endless = registry.get("endless").unwrap().long(Endless);
        let cancel = Switch::default();
        cancel.cancel();
        let outcome = run_until(&endless.tool, &*endless.executor, "{}", &cancel).await.unwrap();
        let Body::Value(json) = &outcome.body else { panic!("an MCP result") };
        assert!(outcome.is_error && json.as_str().contains("cancelled"), "{json:?}");
    }
}
