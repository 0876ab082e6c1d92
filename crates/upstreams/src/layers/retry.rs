//! One more try, where that can do no harm.

use std::sync::Arc;

use tool::executor::Sent;
use tool::{Body, Boxed, Code, Context, ExecuteError, Executor, Granted, Outcome, Step, Traits};

/// Makes a failed call once more: of a read-only tool after any failure of the tool or its source, of
/// an idempotent one only where nothing had been sent. Never after a denial, never when given up.
#[derive(Debug)]
pub struct RetryOnce {
    inner: Arc<dyn Executor>,
}

impl RetryOnce {
    /// Around `inner`.
    pub fn new(inner: Arc<dyn Executor>) -> Self {
        Self { inner }
    }

    async fn run(&self, call: Granted<'_>, ctx: &Context<'_>) -> Result<Step, ExecuteError> {
        let first = self.inner.execute(call, ctx).await;
        if ctx.cancel.is_cancelled() || !may_run_again(&first, &call.call().tool.traits) {
            return first;
        }
        let again = Context { attempt: ctx.attempt.saturating_add(1), ..*ctx };
        tracing::debug!(call = %call.call().id, attempt = again.attempt, "tried again");
        self.inner.execute(call, &again).await
    }
}

impl Executor for RetryOnce {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        Box::pin(self.run(call, ctx))
    }
}

fn may_run_again(first: &Result<Step, ExecuteError>, traits: &Traits) -> bool {
    let read_only = !traits.effects.any();
    match first {
        Ok(Step::Done(outcome)) => outcome.is_error && read_only && !denies(outcome),
        Ok(Step::Wait(_)) => false,
        Err(error) => {
            let passing = matches!(
                error.code,
                Code::UpstreamFailed | Code::UpstreamLost | Code::Timeout | Code::Busy
            );
            passing && (read_only || (traits.idempotent && error.sent == Sent::No))
        }
    }
}

/// Spec 0's word for it, wherever it stands in a module's error.
fn denies(outcome: &Outcome) -> bool {
    let (Body::Value(body) | Body::Mcp(body)) = &outcome.body;
    body.as_str().contains("Permission denied")
}
