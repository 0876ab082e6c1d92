//! A source whose diagnostics and results contain none of the secrets that it was given.

use std::sync::Arc;
use std::time::Duration;

use tool::executor::{Ask, Progress, Unanswered};
use tool::source::{Consent, Probe};
use tool::{
    Args, Boxed, Context, ExecuteError, Executor, Granted, Json, Listing, Offer, Revision, Source,
    SourceError, SourceName, Step,
};

use crate::redaction::Redaction;

/// Executor that applies a [`Redaction`] to results, errors, progress and client requests.
#[derive(Debug)]
pub struct RedactedExecutor {
    inner: Arc<dyn Executor>,
    redaction: Redaction,
}

impl RedactedExecutor {
    /// Wraps the executor `inner`.
    pub fn new(inner: Arc<dyn Executor>, redaction: Redaction) -> Self {
        Self { inner, redaction }
    }

    async fn run(&self, call: Granted<'_>, ctx: &Context<'_>) -> Result<Step, ExecuteError> {
        let redaction = &self.redaction;
        let progress = RedactedProgress { inner: ctx.progress, redaction };
        let ask = ctx.ask.map(|inner| RedactedAsk { inner, redaction });
        let ask = ask.as_ref().map(|ask| ask as &dyn Ask);
        let ctx = Context { progress: &progress, ask, ..*ctx };
        redaction.step(self.inner.execute(call, &ctx).await)
    }
}

impl Executor for RedactedExecutor {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        Box::pin(self.run(call, ctx))
    }

    fn check_args(&self, args: &Args) -> Result<(), String> {
        self.inner.check_args(args).map_err(|told| self.redaction.error(told))
    }
}

struct RedactedProgress<'a> {
    inner: &'a dyn Progress,
    redaction: &'a Redaction,
}

impl Progress for RedactedProgress<'_> {
    fn report(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        let message = message.map(|message| self.redaction.error(message.to_owned()));
        self.inner.report(done, total, message.as_deref());
    }

    fn wanted(&self) -> bool {
        self.inner.wanted()
    }

    fn notify(&self, method: &str, params: &Json) {
        self.inner.notify(method, &self.redaction.json(params.clone()));
    }
}

struct RedactedAsk<'a> {
    inner: &'a dyn Ask,
    redaction: &'a Redaction,
}

impl Ask for RedactedAsk<'_> {
    fn ask<'a>(&'a self, method: &'a str, params: Json) -> Boxed<'a, Result<Json, Unanswered>> {
        self.inner.ask(method, self.redaction.json(params))
    }
}

/// Source that applies a [`Redaction`] to problems, errors and calls.
#[derive(Debug)]
pub struct Redacted {
    inner: Arc<dyn Source>,
    redaction: Redaction,
}

impl Redacted {
    /// Wraps the source `inner`.
    pub fn new(inner: Arc<dyn Source>, redaction: Redaction) -> Self {
        Self { inner, redaction }
    }

    fn listing(&self, listing: Listing) -> Listing {
        let Listing { offers, problems, about, .. } = listing;
        let offer = |Offer { item, executor }| {
            let executor = RedactedExecutor::new(executor, self.redaction.clone());
            Offer { item, executor: Arc::new(executor) }
        };
        Listing {
            offers: offers.into_iter().map(offer).collect(),
            problems: problems.into_iter().map(|it| self.redaction.problem(it)).collect(),
            about: about.map(|about| self.redaction.json(about)),
            ..listing
        }
    }
}

impl Source for Redacted {
    fn name(&self) -> &SourceName {
        self.inner.name()
    }

    fn list(&self) -> Boxed<'_, Result<Listing, SourceError>> {
        Box::pin(async {
            let listing = self.inner.list().await;
            let listing = listing.map_err(|error| self.redaction.source_error(error))?;
            Ok(self.listing(listing))
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
