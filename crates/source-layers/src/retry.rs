//! One retry of failed calls, if repeating is harmless.

use std::sync::Arc;
use std::time::Duration;

use tool::source::{Consent, Probe};
use tool::{
    Args, Body, Boxed, Code, Context, ExecuteError, Executor, Granted, Item, Json, Listing, Offer,
    Outcome, Revision, Source, SourceError, SourceName, Step, Tool, Traits,
};

/// Executor that repeats a failed call once if the tool is read-only or idempotent. Denied and
/// cancelled calls are not repeated.
#[derive(Debug)]
pub struct RetryOnce {
    inner: Arc<dyn Executor>,
}

impl RetryOnce {
    /// Wraps the executor `inner`.
    pub fn new(inner: Arc<dyn Executor>) -> Self {
        Self { inner }
    }

    async fn run(&self, call: Granted<'_>, ctx: &Context<'_>) -> Result<Step, ExecuteError> {
        let first = self.inner.execute(call, ctx).await;
        let tool = &call.call().tool;
        let Some(error) = passing(&first).filter(|_| repeats(&tool.traits)) else { return first };
        if ctx.cancel.is_cancelled() {
            return first;
        }
        tracing::warn!(tool = %tool.name, error, "tool_call_failed_retrying");
        self.inner.execute(call, ctx).await
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

    fn check_args(&self, args: &Args) -> Result<(), String> {
        self.inner.check_args(args)
    }
}

fn repeats(traits: &Traits) -> bool {
    !traits.effects.any() || traits.idempotent
}

/// Returns the error if it may be transient: a failure of the tool or of its source.
fn passing(first: &Result<Step, ExecuteError>) -> Option<String> {
    match first {
        Ok(Step::Done(outcome)) if outcome.is_error => told(outcome),
        Ok(Step::Done(_) | Step::Wait(_)) => None,
        Err(error) => {
            let passing = matches!(
                error.code,
                Code::UpstreamFailed | Code::UpstreamLost | Code::Timeout | Code::Busy
            );
            passing.then(|| error.message.clone())
        }
    }
}

/// Returns the tool's own error text, unless it is spec 0's text for a denial.
fn told(outcome: &Outcome) -> Option<String> {
    let (Body::Value(body) | Body::Mcp(body)) = &outcome.body;
    let text = |body: &Json| body.read::<String>().unwrap_or_else(|_| body.as_str().to_owned());
    (!body.as_str().contains("Permission denied")).then(|| text(body).chars().take(300).collect())
}

/// Source whose failed calls are repeated once (`retry: once`). A tool's time limit is doubled so
/// that both attempts fit.
#[derive(Debug)]
pub struct Retrying {
    inner: Arc<dyn Source>,
}

impl Retrying {
    /// Wraps the source `inner`.
    pub fn new(inner: Arc<dyn Source>) -> Self {
        Self { inner }
    }
}

/// Wraps the executor of a tool. MCP methods stay unchanged: only calls of tools are repeated.
fn twice(offer: Offer) -> Offer {
    match offer.item {
        Item::Tool(tool) if repeats(&tool.traits) => {
            let mut tool = Tool::clone(&tool);
            tool.traits.timeout = tool.traits.timeout.map(|limit| limit * 2);
            let executor = Arc::new(RetryOnce::new(offer.executor));
            Offer { item: Item::Tool(Arc::new(tool)), executor }
        }
        item => Offer { item, executor: offer.executor },
    }
}

impl Source for Retrying {
    fn name(&self) -> &SourceName {
        self.inner.name()
    }

    fn list(&self) -> Boxed<'_, Result<Listing, SourceError>> {
        Box::pin(async {
            let listing = self.inner.list().await?;
            let offers = listing.offers.into_iter().map(twice).collect();
            Ok(Listing { offers, ..listing })
        })
    }

    fn changed(&self, seen: Revision) -> Boxed<'_, Revision> {
        self.inner.changed(seen)
    }

    fn list_timeout(&self) -> Option<Duration> {
        self.inner.list_timeout()
    }

    fn tells_when_mended(&self) -> bool {
        self.inner.tells_when_mended()
    }

    fn lists_at_once(&self) -> bool {
        self.inner.lists_at_once()
    }

    fn refresh(&self) {
        self.inner.refresh();
    }

    fn probe(&self) -> Boxed<'_, Option<Probe>> {
        self.inner.probe()
    }

    fn close(&self) -> Boxed<'_, ()> {
        self.inner.close()
    }

    fn consent(&self) -> Option<&dyn Consent> {
        self.inner.consent()
    }
}
