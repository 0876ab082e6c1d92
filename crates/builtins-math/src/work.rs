//! Execution of the tools on blocking threads, with limits of concurrency and time.
//!
//! A computation checks its [`Run`] between steps, which stops it when the call is cancelled or its
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
use tool_manifest::{GIVEN_UP, run_blocking, unless_given_up};

use crate::image_content::{self, EncodedImage};
use crate::tool_arguments::ToolArguments;

/// Time limit of one computation.
const MOST: Duration = Duration::from_secs(30);

/// Computes an answer from arguments within the limits of the run. An error describes for the model
/// the fault of the arguments.
pub(crate) type Work = fn(ToolArguments<'_>, &Run) -> Result<Answer, String>;

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
pub(crate) struct Run {
    stop: CancellationToken,
    clock: Arc<dyn Clock>,
    until: MonotonicTime,
}

impl Run {
    /// Returns an error if the computation must stop. Must be called at least every few
    /// milliseconds.
    pub(crate) fn go_on(&self) -> Result<(), String> {
        if self.stop.is_cancelled() {
            return Err(GIVEN_UP.to_owned());
        }
        if self.clock.monotonic_now() >= self.until {
            let seconds = MOST.as_secs();
            return Err(format!(
                "not finished within {seconds} s: request fewer steps, samples or dimensions"
            ));
        }
        Ok(())
    }
}

/// State that the executors of all tools share.
#[derive(Debug, Clone)]
pub(crate) struct Shop {
    clock: Arc<dyn Clock>,
    /// One permit for each concurrent computation.
    quota: Arc<WorkerQuota>,
    artefacts: Option<Arc<dyn tool::artifact::ArtifactStore>>,
}

impl Shop {
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        artifacts: Option<Arc<dyn tool::artifact::ArtifactStore>>,
    ) -> Self {
        let places = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Self { clock, quota: Arc::new(WorkerQuota::new(places.max(2))), artefacts: artifacts }
    }

    /// Creates the executor that runs `work`.
    pub(crate) fn executor(&self, work: Work) -> Working {
        Working { work, shop: self.clone() }
    }
}

/// Executor of one math tool.
#[derive(Debug)]
pub(crate) struct Working {
    work: Work,
    shop: Shop,
}

impl Executor for Working {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        Box::pin(unless_given_up(ctx, self.compute(call, ctx)))
    }
}

impl Working {
    async fn compute(
        &self,
        call: RecordedCall<'_>,
        ctx: &CallContext<'_>,
    ) -> Result<ExecutionState, ExecuteError> {
        let place = self.shop.quota.acquire_slot(ctx.caller.limit_key_id()).await;
        let place = place.map_err(|why| ExecuteError::not_sent(ErrorCode::Busy, why))?;
        let (work, args) = (self.work, call.call().arguments.clone());
        let clock = Arc::clone(&self.shop.clock);
        let until = clock.monotonic_now().saturating_add(MOST).min(ctx.deadline);
        let stop = CancellationToken::new();
        let run = Run { stop: stop.clone(), clock, until };
        let computed = run_blocking(stop, move || {
            // Held until the thread is done, even if no caller waits any more.
            let _place = place;
            work(ToolArguments::from_args(&args), &run)
        });
        match computed.await? {
            Ok(answer) => Ok(ExecutionState::Completed(self.outcome(ctx.caller, answer).await)),
            Err(message) => Ok(ExecutionState::Completed(Outcome::tool_failure(&message))),
        }
    }

    async fn outcome(&self, owner: &Caller, answer: Answer) -> Outcome {
        let Some(picture) = answer.picture else {
            return Outcome::from_value(
                answer.exact.unwrap_or_else(|| Json::encode(&answer.value)),
            );
        };
        let kept = match &self.shop.artefacts {
            Some(artefacts) => artefacts.store_artifact(owner, picture.bytes.clone()).await.ok(),
            None => None,
        };
        let body = image_content::image_result(answer.value, &picture, kept.as_ref());
        Outcome { body: OutcomeBody::Mcp(Json::encode(&body)), is_error: false }
    }
}

#[cfg(test)]
pub(crate) mod tests;
