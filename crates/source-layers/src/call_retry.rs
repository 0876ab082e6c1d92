//! One retry of failed calls, if repeating is harmless.

use std::sync::Arc;
use std::time::Duration;

use tool::source::{ConsentFlow, ProbeResult};
use tool::{
    BoxFuture, CallArguments, CallContext, CatalogItem, ErrorCode, ExecuteError, ExecutionState,
    Executor, Json, Offer, Outcome, OutcomeBody, RecordedCall, Source, SourceError, SourceListing,
    SourceName, SourceRevision, Tool, ToolTraits,
};

/// Executor that repeats a failed call once if the tool is read-only or idempotent. Denied and
/// cancelled calls are not repeated.
#[derive(Debug)]
pub struct RetryOnceExecutor {
    inner_executor: Arc<dyn Executor>,
}

impl RetryOnceExecutor {
    /// Wraps the executor `inner`.
    pub fn new(inner: Arc<dyn Executor>) -> Self {
        Self { inner_executor: inner }
    }

    async fn run_with_retry(
        &self,
        call: RecordedCall<'_>,
        ctx: &CallContext<'_>,
    ) -> Result<ExecutionState, ExecuteError> {
        let first = self.inner_executor.execute(call, ctx).await;
        let tool = &call.call().tool;
        let Some(error) = transient_error(&first).filter(|_| is_repeatable(&tool.traits)) else {
            return first;
        };
        if ctx.cancel.is_cancelled() {
            return first;
        }
        tracing::warn!(tool = %tool.name, error, "tool_call_failed_retrying");
        self.inner_executor.execute(call, ctx).await
    }
}

impl Executor for RetryOnceExecutor {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        Box::pin(self.run_with_retry(call, ctx))
    }

    fn validate_arguments(&self, args: &CallArguments) -> Result<(), String> {
        self.inner_executor.validate_arguments(args)
    }
}

fn is_repeatable(traits: &ToolTraits) -> bool {
    !traits.effects.may_change_state() || traits.is_idempotent
}

/// Returns the error if it may be transient: a failure of the tool or of its source.
fn transient_error(first: &Result<ExecutionState, ExecuteError>) -> Option<String> {
    match first {
        Ok(ExecutionState::Completed(outcome)) if outcome.is_error => outcome_error(outcome),
        Ok(ExecutionState::Completed(_) | ExecutionState::Pending(_)) => None,
        Err(error) => {
            let passing = matches!(
                error.code,
                ErrorCode::UpstreamFailed
                    | ErrorCode::UpstreamLost
                    | ErrorCode::Timeout
                    | ErrorCode::Busy
            );
            passing.then(|| error.message.clone())
        }
    }
}

/// Returns the tool's own error text, unless it is the module API's text for a denial.
fn outcome_error(outcome: &Outcome) -> Option<String> {
    let (OutcomeBody::Value(body) | OutcomeBody::Mcp(body)) = &outcome.body;
    let text = |body: &Json| body.decode::<String>().unwrap_or_else(|_| body.as_str().to_owned());
    (!body.as_str().contains("Permission denied")).then(|| text(body).chars().take(300).collect())
}

/// Source whose failed calls are repeated once (`retry: once`). A tool's time limit is doubled so
/// that both attempts fit.
#[derive(Debug)]
pub struct RetrySource {
    inner_source: Arc<dyn Source>,
}

impl RetrySource {
    /// Wraps the source `inner`.
    pub fn new(inner: Arc<dyn Source>) -> Self {
        Self { inner_source: inner }
    }
}

/// Wraps the executor of a tool. MCP methods stay unchanged: only calls of tools are repeated.
fn wrap_offer(offer: Offer) -> Offer {
    match offer.item {
        CatalogItem::Tool(tool) if is_repeatable(&tool.traits) => {
            let mut tool = Tool::clone(&tool);
            tool.traits.timeout = tool.traits.timeout.map(|limit| limit * 2);
            let executor = Arc::new(RetryOnceExecutor::new(offer.executor));
            Offer { item: CatalogItem::Tool(Arc::new(tool)), executor }
        }
        item => Offer { item, executor: offer.executor },
    }
}

impl Source for RetrySource {
    fn name(&self) -> &SourceName {
        self.inner_source.name()
    }

    fn list_offers(&self) -> BoxFuture<'_, Result<SourceListing, SourceError>> {
        Box::pin(async {
            let listing = self.inner_source.list_offers().await?;
            let offers = listing.offers.into_iter().map(wrap_offer).collect();
            Ok(SourceListing { offers, ..listing })
        })
    }

    fn wait_for_change(&self, seen: SourceRevision) -> BoxFuture<'_, SourceRevision> {
        self.inner_source.wait_for_change(seen)
    }

    fn list_timeout(&self) -> Option<Duration> {
        self.inner_source.list_timeout()
    }

    fn notifies_recovery(&self) -> bool {
        self.inner_source.notifies_recovery()
    }

    fn is_listed_locally(&self) -> bool {
        self.inner_source.is_listed_locally()
    }

    fn reset_backoff(&self) {
        self.inner_source.reset_backoff();
    }

    fn probe_health(&self) -> BoxFuture<'_, Option<ProbeResult>> {
        self.inner_source.probe_health()
    }

    fn shut_down(&self) -> BoxFuture<'_, ()> {
        self.inner_source.shut_down()
    }

    fn consent_flow(&self) -> Option<&dyn ConsentFlow> {
        self.inner_source.consent_flow()
    }
}
