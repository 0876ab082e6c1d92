//! A source whose diagnostics and results contain none of the secrets that it was given.

use std::sync::Arc;
use std::time::Duration;

use tool::executor::{ClientRequestError, ClientRequester, ProgressSink};
use tool::source::{ConsentFlow, ProbeResult};
use tool::{
    BoxFuture, CallArguments, CallContext, ExecuteError, ExecutionState, Executor, Json, Offer,
    RecordedCall, Source, SourceError, SourceListing, SourceName, SourceRevision,
};

use crate::redaction::Redaction;

/// Executor that applies a [`Redaction`] to results, errors, progress and client requests.
#[derive(Debug)]
pub struct RedactedExecutor {
    inner_executor: Arc<dyn Executor>,
    redaction: Redaction,
}

impl RedactedExecutor {
    /// Wraps the executor `inner`.
    pub fn new(inner: Arc<dyn Executor>, redaction: Redaction) -> Self {
        Self { inner_executor: inner, redaction }
    }

    async fn run_call(
        &self,
        call: RecordedCall<'_>,
        ctx: &CallContext<'_>,
    ) -> Result<ExecutionState, ExecuteError> {
        let redaction = &self.redaction;
        let progress = RedactedProgressSink { inner_sink: ctx.progress, redaction };
        let ask = ctx
            .client_requests
            .map(|inner| RedactedClientRequester { inner_requester: inner, redaction });
        let ask = ask.as_ref().map(|ask| ask as &dyn ClientRequester);
        let ctx = CallContext { progress: &progress, client_requests: ask, ..*ctx };
        redaction.redact_result(self.inner_executor.execute(call, &ctx).await)
    }
}

impl Executor for RedactedExecutor {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        Box::pin(self.run_call(call, ctx))
    }

    fn validate_arguments(&self, args: &CallArguments) -> Result<(), String> {
        self.inner_executor
            .validate_arguments(args)
            .map_err(|message| self.redaction.redact_error_text(message))
    }
}

struct RedactedProgressSink<'a> {
    inner_sink: &'a dyn ProgressSink,
    redaction: &'a Redaction,
}

impl ProgressSink for RedactedProgressSink<'_> {
    fn report_progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        let message = message.map(|message| self.redaction.redact_error_text(message.to_owned()));
        self.inner_sink.report_progress(done, total, message.as_deref());
    }

    fn has_listener(&self) -> bool {
        self.inner_sink.has_listener()
    }

    fn forward_notification(&self, method: &str, params: &Json) {
        self.inner_sink.forward_notification(method, &self.redaction.redact_json(params.clone()));
    }
}

struct RedactedClientRequester<'a> {
    inner_requester: &'a dyn ClientRequester,
    redaction: &'a Redaction,
}

impl ClientRequester for RedactedClientRequester<'_> {
    fn send_request<'a>(
        &'a self,
        method: &'a str,
        params: Json,
    ) -> BoxFuture<'a, Result<Json, ClientRequestError>> {
        self.inner_requester.send_request(method, self.redaction.redact_json(params))
    }
}

/// Source that applies a [`Redaction`] to problems, errors and calls.
#[derive(Debug)]
pub struct RedactedSource {
    inner_source: Arc<dyn Source>,
    redaction: Redaction,
}

impl RedactedSource {
    /// Wraps the source `inner`.
    pub fn new(inner: Arc<dyn Source>, redaction: Redaction) -> Self {
        Self { inner_source: inner, redaction }
    }

    fn redact_listing(&self, listing: SourceListing) -> SourceListing {
        let SourceListing { offers, problems, initialize_result: about, .. } = listing;
        let offer = |Offer { item, executor }| {
            let executor = RedactedExecutor::new(executor, self.redaction.clone());
            Offer { item, executor: Arc::new(executor) }
        };
        SourceListing {
            offers: offers.into_iter().map(offer).collect(),
            problems: problems.into_iter().map(|it| self.redaction.redact_problem(it)).collect(),
            initialize_result: about.map(|about| self.redaction.redact_json(about)),
            ..listing
        }
    }
}

impl Source for RedactedSource {
    fn name(&self) -> &SourceName {
        self.inner_source.name()
    }

    fn list_offers(&self) -> BoxFuture<'_, Result<SourceListing, SourceError>> {
        Box::pin(async {
            let listing = self.inner_source.list_offers().await;
            let listing = listing.map_err(|error| self.redaction.redact_source_error(error))?;
            Ok(self.redact_listing(listing))
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
