//! How the tools run: on threads for what takes long, a few at a time, and never longer than allowed.
//!
//! What is computed asks its [`Run`] between steps whether it may go on: it may not where the call was
//! given up or the time is over. No tool here reaches for anything outside.

use std::sync::Arc;
use std::time::Duration;

use builtins::WorkerQuota;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tool::{
    Body, Boxed, Caller, Clock, Code, Context, ExecuteError, Executor, Granted, Json, Mono,
    Outcome, Step,
};
use tool_manifest::{GIVEN_UP, run_blocking, unless_given_up};

use crate::fields::Fields;
use crate::picture::{self, Picture};

/// What one computation may take.
const MOST: Duration = Duration::from_secs(30);

/// Computes an answer from arguments, for as long as the run lets it: or says what is wrong with them,
/// for the model.
pub(crate) type Work = fn(Fields<'_>, &Run) -> Result<Answer, String>;

/// What a tool answers.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) value: Value,
    pub(crate) picture: Option<Picture>,
    /// The value as text, where a tree would lose digits of whole numbers.
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

/// Whether a computation may go on.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    stop: CancellationToken,
    clock: Arc<dyn Clock>,
    until: Mono,
}

impl Run {
    /// To be asked between steps of at most some milliseconds.
    pub(crate) fn go_on(&self) -> Result<(), String> {
        if self.stop.is_cancelled() {
            return Err(GIVEN_UP.to_owned());
        }
        if self.clock.mono() >= self.until {
            let seconds = MOST.as_secs();
            return Err(format!(
                "not done in time, at most {seconds} s: ask for fewer steps, samples or dimensions"
            ));
        }
        Ok(())
    }
}

/// What all tools share.
#[derive(Debug, Clone)]
pub(crate) struct Shop {
    clock: Arc<dyn Clock>,
    /// One for each computation at a time.
    quota: Arc<WorkerQuota>,
    artefacts: Option<Arc<dyn tool::artefact::Artefacts>>,
}

impl Shop {
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        artefacts: Option<Arc<dyn tool::artefact::Artefacts>>,
    ) -> Self {
        let places = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Self { clock, quota: Arc::new(WorkerQuota::new(places.max(2))), artefacts }
    }

    /// What runs `work`.
    pub(crate) fn executor(&self, work: Work) -> Working {
        Working { work, shop: self.clone() }
    }
}

/// Runs one tool.
#[derive(Debug)]
pub(crate) struct Working {
    work: Work,
    shop: Shop,
}

impl Executor for Working {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        Box::pin(unless_given_up(ctx, self.compute(call, ctx)))
    }
}

impl Working {
    async fn compute(&self, call: Granted<'_>, ctx: &Context<'_>) -> Result<Step, ExecuteError> {
        let place = self.shop.quota.enter(ctx.caller.root_key()).await;
        let place = place.map_err(|why| ExecuteError::before(Code::Busy, why))?;
        let (work, args) = (self.work, call.call().args.clone());
        let clock = Arc::clone(&self.shop.clock);
        let until = clock.mono().after(MOST).min(ctx.deadline);
        let stop = CancellationToken::new();
        let run = Run { stop: stop.clone(), clock, until };
        let computed = run_blocking(stop, move || {
            // Kept until the thread is done, even where nobody waits for it any more.
            let _place = place;
            work(Fields::of(&args), &run)
        });
        match computed.await? {
            Ok(answer) => Ok(Step::Done(self.outcome(ctx.caller, answer).await)),
            Err(message) => Ok(Step::Done(Outcome::failed(&message))),
        }
    }

    async fn outcome(&self, owner: &Caller, answer: Answer) -> Outcome {
        let Some(picture) = answer.picture else {
            return Outcome::value(answer.exact.unwrap_or_else(|| Json::of(&answer.value)));
        };
        let kept = match &self.shop.artefacts {
            Some(artefacts) => artefacts.keep(owner, picture.bytes.clone()).await.ok(),
            None => None,
        };
        let body = picture::result(answer.value, &picture, kept.as_ref());
        Outcome { body: Body::Mcp(Json::of(&body)), is_error: false }
    }
}

#[cfg(test)]
pub(crate) mod tests;
