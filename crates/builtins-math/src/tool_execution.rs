//! Execution of the tools on blocking threads, with limits of concurrency and time.
//!
//! A computation checks its [`RunContext`] between steps, which stops it when the call is cancelled or its
//! time is over. The tools access nothing outside.

use std::sync::Arc;
use std::time::Duration;

use builtins::WorkerQuota;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tool::{
    BoxFuture, CallContext, Caller, Clock, ErrorCode, ExecuteError, ExecutionState, Executor, Json,
    MonotonicTime, Outcome, OutcomeBody, RecordedCall,
};
use tool_manifest::{GIVEN_UP, run_blocking, run_until_cancelled};

use crate::image_content::{self, EncodedImage};
use crate::tool_arguments::ToolArguments;

/// Time limit of one computation.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Computes an answer from arguments within the limits of the run. An error describes for the model
/// the fault of the arguments.
pub(crate) type ToolComputation = fn(ToolArguments<'_>, &RunContext) -> Result<Answer, String>;

/// Answer of a tool: its value and an optional image.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) value: Value,
    pub(crate) picture: Option<EncodedImage>,
    /// Value as text, if a tree would lose digits of integers.
    pub(crate) exact: Option<Json>,
}

impl From<Value> for Answer {
    fn from(value: Value) -> Self {
        Self { value, picture: None, exact: None }
    }
}

impl From<Json> for Answer {
    fn from(exact: Json) -> Self {
        Self { value: Value::Null, picture: None, exact: Some(exact) }
    }
}

/// Limits of a running computation.
#[derive(Debug, Clone)]
pub(crate) struct RunContext {
    stop: CancellationToken,
    clock: Arc<dyn Clock>,
    until: MonotonicTime,
}

impl RunContext {
    /// Returns an error if the computation must stop. Must be called at least every few
    /// milliseconds.
    pub(crate) fn check_cancelled(&self) -> Result<(), String> {
        if self.stop.is_cancelled() {
            return Err(GIVEN_UP.to_owned());
        }
        if self.clock.monotonic_now() >= self.until {
            let seconds = TIME_LIMIT.as_secs();
            return Err(format!(
                "not finished within {seconds} s: request fewer steps, samples or dimensions"
            ));
        }
        Ok(())
    }
}

/// State that the executors of all tools share.
#[derive(Debug, Clone)]
pub(crate) struct SharedResources {
    clock: Arc<dyn Clock>,
    /// One permit for each concurrent computation.
    quota: Arc<WorkerQuota>,
    artifacts: Option<Arc<dyn tool::artifact::ArtifactStore>>,
}

impl SharedResources {
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        artifacts: Option<Arc<dyn tool::artifact::ArtifactStore>>,
    ) -> Self {
        let slots = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Self { clock, quota: Arc::new(WorkerQuota::new(slots.max(2))), artifacts }
    }

    /// Creates the executor that runs `computation`.
    pub(crate) fn build_executor(&self, computation: ToolComputation) -> BlockingExecutor {
        BlockingExecutor { computation, shared: self.clone() }
    }
}

/// Executor of one math tool.
#[derive(Debug)]
pub(crate) struct BlockingExecutor {
    computation: ToolComputation,
    shared: SharedResources,
}

impl Executor for BlockingExecutor {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        Box::pin(run_until_cancelled(ctx, self.compute(call, ctx)))
    }
}

impl BlockingExecutor {
    async fn compute(
        &self,
        call: RecordedCall<'_>,
        ctx: &CallContext<'_>,
    ) -> Result<ExecutionState, ExecuteError> {
        let slot = self.shared.quota.acquire_slot(ctx.caller.limit_key_id()).await;
        let slot = slot.map_err(|why| ExecuteError::not_sent(ErrorCode::Busy, why))?;
        let (computation, args) = (self.computation, call.call().arguments.clone());
        let clock = Arc::clone(&self.shared.clock);
        let until = clock.monotonic_now().saturating_add(TIME_LIMIT).min(ctx.deadline);
        let stop = CancellationToken::new();
        let run = RunContext { stop: stop.clone(), clock, until };
        let computed = run_blocking(stop, move || {
            // Held until the thread is done, even if no caller waits any more.
            let _slot = slot;
            computation(ToolArguments::from_args(&args), &run)
        });
        match computed.await? {
            Ok(answer) => {
                Ok(ExecutionState::Completed(self.build_outcome(ctx.caller, answer).await))
            }
            Err(message) => Ok(ExecutionState::Completed(Outcome::tool_failure(&message))),
        }
    }

    async fn build_outcome(&self, owner: &Caller, answer: Answer) -> Outcome {
        let Some(picture) = answer.picture else {
            return Outcome::from_value(
                answer.exact.unwrap_or_else(|| Json::encode(&answer.value)),
            );
        };
        let stored = match &self.shared.artifacts {
            Some(artifacts) => artifacts.store_artifact(owner, picture.bytes.clone()).await.ok(),
            None => None,
        };
        let body = image_content::image_result(answer.value, &picture, stored.as_ref());
        Outcome { body: OutcomeBody::Mcp(Json::encode(&body)), is_error: false }
    }
}

#[cfg(test)]
pub(crate) mod tests;
